printf 'link add d0 type dummy\nlink add d1 type dummy\n# comment\n\nlink set d0 address 02:00:00:00:00:01\nlink set d1 address 02:00:00:00:00:02\nlink show d0\n' | ip -batch -
printf 'link add d0 type dummy\nlink add d2 type dummy\n' | ip -batch -
printf 'link add d0 type dummy\nlink add d2 address 02:00:00:00:00:03 type dummy\n' | ip -force -batch -
ip -br link
printf 'qdisc add dev d0 clsact\nfilter add dev d0 ingress protocol ip flower action drop\nfilter add dev d0 ingress protocol ip flower dst_ip 10.0.0.0/8 action pass\nfilter show dev d0 ingress\n' | tc -b -
printf 'filter add dev d0 ingress protocol ip prio 5 matchall action drop\nfilter add dev nosuch ingress matchall\nqdisc show dev d0\n' | tc -force -b -
tc filter show dev d0 ingress
printf 'qdisc add dev d0 root pfifo\nqdisc bogus\nqdisc show\n' | tc -b -
printf 'qdisc show dev d0\n' >$tmp/b; tc -b $tmp/b
tc -b $tmp/nosuch
ip -batch $tmp/nosuch
printf 'route add 10.0.0.0/8 via 1.2.3.4\n' | ip -batch -
for i in $(seq 200); do echo "link add b$i type dummy"; done | ip -batch -
ip -br link | wc -l
for i in $(seq 200); do echo "link del b$i"; done | ip -batch -
ip -br link | wc -l
