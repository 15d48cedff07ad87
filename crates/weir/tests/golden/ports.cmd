# Ranges of local ports.
p() { for name in ip_local_port_range ip_local_reserved_ports ip_unprivileged_port_start; do printf '%s: ' $name; cat /proc/sys/net/ipv4/$name; done; }
p
sysctl -w net.ipv4.ip_local_port_range="40000 50000"
sysctl -w net.ipv4.ip_local_port_range="50000 40000"
sysctl -w net.ipv4.ip_local_port_range="1000 40000"
sysctl -w net.ipv4.ip_local_port_range="1024 40000"
sysctl -w net.ipv4.ip_local_port_range="0 40000"
sysctl -w net.ipv4.ip_local_port_range="2000 65536"
sysctl -w net.ipv4.ip_local_port_range="2000"
sysctl -w net.ipv4.ip_local_port_range="x 3000"
sysctl -w net.ipv4.ip_local_port_range="3000 3000"
p
sysctl -w net.ipv4.ip_unprivileged_port_start=3001
sysctl -w net.ipv4.ip_unprivileged_port_start=3000
sysctl -w net.ipv4.ip_unprivileged_port_start=0
sysctl -w net.ipv4.ip_local_port_range="1 40000"
sysctl -w net.ipv4.ip_unprivileged_port_start=65536
sysctl -w net.ipv4.ip_unprivileged_port_start=-1
sysctl -w net.ipv4.ip_unprivileged_port_start=1
p
sysctl -w net.ipv4.ip_local_reserved_ports="8080,9148"
sysctl -w net.ipv4.ip_local_reserved_ports="9148,8080-8082,8081,8083"
p
sysctl -w net.ipv4.ip_local_reserved_ports="5-3"
sysctl -w net.ipv4.ip_local_reserved_ports="70000"
sysctl -w net.ipv4.ip_local_reserved_ports="65535"
p
sysctl -w net.ipv4.ip_local_reserved_ports="1,2x"
sysctl -w net.ipv4.ip_local_reserved_ports="1, 2"
sysctl -w net.ipv4.ip_local_reserved_ports="-5"
sysctl -w net.ipv4.ip_local_reserved_ports="5-"
sysctl -w net.ipv4.ip_local_reserved_ports="7,"
p
sysctl -w net.ipv4.ip_local_reserved_ports="0-65535"
p
sysctl -w net.ipv4.ip_local_reserved_ports=""
p
