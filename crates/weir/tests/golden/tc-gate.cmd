# gate: refused requests, display and stored options.
tc actions add action gate
tc actions add action gate index 1
tc actions add action gate sched-entry
tc actions add action gate sched-entry ajar 1000
tc actions add action gate sched-entry open
tc actions add action gate sched-entry open 0
tc actions add action gate sched-entry open -5
tc actions add action gate sched-entry open 4294967296
tc actions add action gate sched-entry open 100000000 index 1
tc actions add action gate sched-entry open 100000000 index 1
tc actions ls action gate | sed 's/^total.*//'
tc actions get action gate index 1
tc -j actions get action gate index 1
tc -s actions get action gate index 1 | grep -v ref
tc actions add action gate priority 2 clockid CLOCK_MONOTONIC base-time 200000000000ns cycle-time 1000000 cycle-time-ext 5 flags 7 sched-entry open 200000000ns 3 8000000b sched-entry close 100000000ns index 2
tc actions add action gate clockid CLOCK_BOOTTIME sched-entry OPEN 1ms sched-entry CLOSE 2us 5 index 3
tc actions add action gate clockid CLOCK_REALTIME sched-entry open 1ms -1 -1 drop index 4
tc actions add action gate clockid realtime sched-entry open 1ms goto chain 3 index 5
tc actions add action gate clockid TAI base-time -5 sched-entry open 1s index 6 cookie 0a0b
tc actions add action gate clockid CLOCK_PROCESS sched-entry open 1s index 7
tc actions add action gate sched-entry open 1s skip_hw index 7
tc actions add action gate sched-entry open 1s skip_sw index 8
tc actions add action gate sched-entry open 1s no_percpu index 9
tc actions add action gate sched-entry open 4s -1 8gb sched-entry close 1 index 10 pass
tc actions add action gate index 10
tc actions list action gate
tc -j actions list action gate
tc actions replace action gate index 2
tc actions get action gate index 2
tc actions replace action gate index 2 priority 5 sched-entry close 5ms
tc actions get action gate index 2
tc actions replace action gate index 2 cycle-time 7s
tc actions get action gate index 2
tc actions replace action gate index 2 sched-entry open 5ms sched-entry close 6ms 1
tc actions get action gate index 2
tc actions replace action gate index 2 clockid CLOCK_TAI base-time 6000000000000000000 flags 0
tc actions get action gate index 2
tc actions change action gate index 2 reclassify
tc actions replace action gate index 2 goto chain 3
tc actions replace action gate index 2 sched-entry close 0
tc actions get action gate index 2
tc actions del action gate index 2
tc actions del action gate index 2
tc actions get action gate index 2
ip link add d0 type dummy
ip link set d0 up
tc qdisc add dev d0 clsact
tc filter add dev d0 ingress pref 1 matchall action gate index 3
tc filter add dev d0 ingress pref 2 matchall action gate index 77
tc filter add dev d0 ingress pref 3 matchall action gate sched-entry close 5ms index 78
tc filter add dev d0 ingress pref 4 matchall action gate sched-entry close 5ms goto chain 4 action gate index 78
tc filter add dev d0 egress pref 4 matchall action gate sched-entry close 5ms action gate index 99
tc filter show dev d0 ingress
tc filter show dev d0 egress
tc actions flush action gate
tc actions ls action gate
tc filter del dev d0 ingress
tc actions flush action gate
tc actions ls action gate
