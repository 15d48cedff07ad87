# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# v0 answers routers' queries about groups. FRAMES sends them by v1.
ip link set v0 up
pass 8
ip addr add 10.0.0.1/24 dev v0
ip addr add 239.1.1.1/32 dev v0 autojoin
pass 3
ip addr add 239.1.1.2/32 dev v0 autojoin
pass 3
ip addr add ff05::1234/128 dev v0 autojoin nodad
pass 3
query() { python3 "$FRAMES" "$@"; pass 4; }
# IGMPv3 and MLDv2, about all groups and about one.
query igmp v1 224.0.0.1 1114000000000000027d0000
query igmp v1 239.1.1.1 11140000ef010101027d0000
query igmp v1 239.1.1.3 11140000ef010103027d0000
query mld v1 ff02::1 8200000007d0000000000000000000000000000000000000027d0000
query mld v1 ff05::1234 8200000007d00000ff050000000000000000000000001234027d0000
# About an address that is no group.
query mld v1 ff02::1 8200000007d0000020010db8000000000000000000000001027d0000
# MLDv1.
query mld v1 ff02::1 8200000007d0000000000000000000000000000000000000
ip addr del ff05::1234/128 dev v0
pass 1
# IGMPv2, then IGMPv1.
query igmp v1 224.0.0.1 1114000000000000
ip addr del 239.1.1.2/32 dev v0
pass 1
python3 "$FRAMES" igmp v1 224.0.0.1 1100000000000000
pass 12
