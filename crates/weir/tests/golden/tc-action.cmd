ip link add d0 address 02:00:00:00:00:01 type dummy
tc actions list action gact
tc actions add action drop index 5
tc actions add action drop index 5
tc actions add action pass index 6 cookie 0011223344
tc actions add action ok no_percpu hw_stats disabled
tc actions add action pipe random netrand drop 30 index 7
tc actions add action continue random determ ok 5 index 8
tc actions add action reclassify index 9
tc actions add action trap index 10
tc actions add action jump 1 index 11
tc actions add action goto chain 5 index 12
tc actions add action mirred egress mirror dev d0 index 1
tc actions add action mirred ingress redirect dev d0 index 2
tc actions add action mirred egress mirror dev nosuch index 3
tc actions list action gact
pass 3
tc -s actions list action gact
tc -s -d actions list action mirred
tc -j -p -s actions list action gact
tc actions ls action gact since 5
tc actions get action gact index 5
tc actions get action gact index 99
tc actions replace action pass index 5
tc actions get action gact index 5
tc actions change action drop index 5
tc actions change action drop index 55
tc actions get action gact index 5
tc actions add action drop index 20 action pass index 21
tc actions get action gact index 20 action gact index 21
tc actions add action drop index 22 action pass index 21
tc actions get action gact index 22
tc actions del action gact index 20 action gact index 21
tc actions del action gact index 20
tc qdisc add dev d0 clsact
tc filter add dev d0 ingress protocol ip pref 1 flower action gact index 5
tc filter show dev d0 ingress
tc actions del action gact index 5
tc actions list action gact | grep -A1 'index 5 '
tc actions flush action gact
tc actions list action gact
tc filter del dev d0 ingress
tc actions flush action gact
tc actions list action gact
tc actions flush action mirred
tc actions add action nosuch index 1
tc actions list action nosuch
tc actions get action nosuch index 1
tc actions flush action nosuch
for i in $(seq 100); do echo "actions add action drop index $i"; done | tc -b -
tc actions list action gact | grep -c index
tc actions flush action gact
tc actions add $(for i in $(seq 32); do echo action drop index $i; done)
tc actions flush action gact
tc actions list action gact
