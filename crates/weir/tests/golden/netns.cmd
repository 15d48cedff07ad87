ip netns
ip netns add one
ip netns add two
ip netns add one
ip netns list | sort
ip -n one link
ip netns exec one ip link
ip netns exec one sh -c 'ip netns identify; exit 3'
ip netns identify
ip netns exec two ip netns identify $$
ip netns exec one sleep 1000 & until [ "$(ip netns pids one)" = $! ]; do sleep 0.1; done; echo same; ip netns identify $!; kill $!
ip netns pids two
ip netns pids nosuch
ip netns exec nosuch true
ip -n nosuch link
ip netns del nosuch
ip netns set one 5
ip netns list | sort
ip netns list-id
ip netns set two 5
ip netns set two auto
ip netns list-id
ip netns list-id target-nsid 5
ip netns list-id nsid 5
ip netns set one 6
ip netns list | sort
ip -n one netns list-id
ip -all netns exec sh -c 'ip -br link | wc -l'
ip netns attach three $$
ip netns list | sort
ip netns identify $$ | sort
ip netns exec three ip netns identify
ip link add d0 type dummy
ip -n three -br link | wc -l
ip -n three link del d0
ip -br link | wc -l
ip netns add "a/b"
ip netns add .
ip netns add ..
ip netns add $(printf 'x%.0s' $(seq 256))
ip -n one link add o0 type dummy
ip -n two link add o0 type dummy
ip -n one -br link | cut -c1-20
ip -br link | cut -c1-20
ip link set o0 up
ip netns del one
ip netns list | sort
ip -n two -br link | cut -c1-20
ip -all netns del
ip netns list
unshare -n ip -br link | cut -c1-30
unshare -n sh -c 'ip link add z0 type dummy; ip -br link | cut -c1-10'
ip -br link | cut -c1-10
nsenter --net=/proc/self/ns/net ip -br link | cut -c1-10
unshare -n sh -c 'nsenter --net=/proc/$PPID/ns/net true; ip netns add inner; ip netns set inner 3; ip netns; ip netns del inner'
cat /proc/self/net/dev | sed 's/[0-9].*//'
