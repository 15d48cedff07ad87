ip link add d0 index 10 address 02:00:00:00:00:01 type dummy
ip link show d0
ip link add d1 index 10 type dummy
ip link add d1 index 1 type dummy
ip link add d1 index 0 type dummy
ip link add d1 address 02:00:00:00:00:02 type dummy
ip -br link
ip link del d1
ip link add d1 address 02:00:00:00:00:02 type dummy
ip -br link
ip link add d2 index 5 address 02:00:00:00:00:03 type dummy
ip link add d3 address 02:00:00:00:00:04 type dummy
ip -br link
ip link add d4 index 100000 address 02:00:00:00:00:05 type dummy
ip link add d5 address 02:00:00:00:00:06 type dummy
ip -br link
ip link property add dev d0 altname first
ip link property add dev d0 altname a-very-long-alternative-name-of-a-device altname third
ip link show d0
ip link show first
ip link show a-very-long-alternative-name-of-a-device
ip -j -p link show third
ip link property add dev d1 altname first
ip link property add dev d1 altname d0
ip link property del dev d1 altname first
ip link property del dev d0 altname first
ip link show d0
ip link set third up
ip link show d0
ip link set third name fourth
ip link set d0 down
ip link set d0 name third
ip link show third
ip link add third type dummy
ip link set d1 name third
ip link del third
ip link show d0
ip link set d1 alias "hello world"
ip -d link show d1
ip link set d1 alias ""
ip link show d1
ip link show dev d1 up
ip link add dummy7 type dummy
ip link add dummy%d type dummy
ip -br link show dummy0 | wc -l
ip link add a%s type dummy
ip link add a%d%d type dummy
ip link add "a b" type dummy
ip link add a: type dummy
ip link add .. type dummy
