# The files of net.core that a new network namespace has.
ip netns add one
ip netns exec one sysctl -a 2>/dev/null | grep '^net.core'
ip netns exec one ls /proc/sys/net/core
ip netns exec one cat /proc/sys/net/core/optmem_max
ip netns exec one sysctl net.core.default_qdisc
ip netns exec one sysctl -w net.core.rmem_max=300000
ip netns exec one sysctl -w net.core.somaxconn=77
ip netns exec one sysctl net.core.somaxconn
sysctl net.core.somaxconn
ip netns del one
