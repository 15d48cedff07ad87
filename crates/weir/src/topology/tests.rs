// SPDX-License-Identifier: Apache-2.0 OR MIT
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

use super::*;

fn short(text: &str) -> Topology {
    short::parse(text).unwrap()
}

/// Follows a packet from node to node by the routes. Returns the nodes.
fn walk(topology: &Topology, from: &str, to: &str) -> Vec<String> {
    let index = |name: &str| {
        topology
            .nodes
            .iter()
            .position(|node| node.name == name)
            .unwrap()
    };
    let target = topology.nodes[index(to)].network.unwrap().0;
    let mut node = index(from);
    let mut path = vec![from.to_owned()];
    while node != index(to) {
        let matches = |route: &&String| {
            let (address, length) = route.split_once(' ').unwrap().0.split_once('/').unwrap();
            let mask = u32::MAX
                .checked_shl(32 - length.parse::<u32>().unwrap())
                .unwrap_or(0);
            let address: std::net::Ipv4Addr = address.parse().unwrap();
            u32::from(target) & mask == u32::from(address)
        };
        let mut routes = topology.nodes[node].routes.iter().filter(matches);
        let route = routes.next().unwrap();
        assert!(routes.next().is_none(), "routes do not overlap");
        let mut words = route.split(' ').skip_while(|word| *word != "via");
        let via = format!("{}/31", words.nth(1).unwrap());
        let has = |link: &&Link| link.ends.iter().any(|end| end.addresses.contains(&via));
        let link = topology.links.iter().find(has).unwrap();
        node = link
            .ends
            .iter()
            .find(|end| end.addresses.contains(&via))
            .unwrap()
            .node;
        path.push(topology.nodes[node].name.clone());
        assert!(path.len() <= topology.nodes.len(), "a loop: {path:?}");
    }
    path
}

#[test]
fn shapes_have_the_right_numbers_of_routers_and_links() {
    let size = |shape: shape::Shape| (shape.routers.len(), shape.links.len(), shape.edge);
    assert_eq!(size(shape::chain(5)), (5, 4, 5));
    assert_eq!(size(shape::chain(1)), (1, 0, 1));
    assert_eq!(size(shape::ring(5)), (5, 5, 5));
    assert_eq!(size(shape::ring(2)), (2, 1, 2));
    assert_eq!(size(shape::star(5)), (5, 4, 4));
    assert_eq!(size(shape::fat_tree(4)), (20, 32, 8));
    assert_eq!(size(shape::fat_tree(28)), (980, 10_976, 392));
    assert_eq!(size(shape::random(100, 4.0, 1)), (100, 200, 100));
    assert_eq!(shape::random(50, 3.0, 7), shape::random(50, 3.0, 7));
    assert_ne!(shape::random(50, 3.0, 7), shape::random(50, 3.0, 8));
}

#[test]
fn each_router_of_a_fat_tree_has_k_links() {
    let shape = shape::fat_tree(6);
    let mut degree = vec![0; shape.routers.len()];
    for (a, b) in &shape.links {
        degree[*a] += 1;
        degree[*b] += 1;
    }
    // Half of an edge router's ports are for hosts.
    assert!(degree[..shape.edge].iter().all(|links| *links == 3));
    assert!(degree[shape.edge..].iter().all(|links| *links == 6));
}

#[test]
fn a_packet_reaches_every_router_by_the_shortest_path() {
    let chain = short("shape = { kind = 'chain', nodes = 9 }");
    assert_eq!(walk(&chain, "r1", "r9").len(), 9);
    assert_eq!(walk(&chain, "r9", "r2").len(), 8);
    let ring = short("shape = { kind = 'ring', nodes = 9 }");
    assert_eq!(walk(&ring, "r1", "r9").len(), 2);
    assert_eq!(walk(&ring, "r1", "r5").len(), 5);
    let tree = short("shape = { kind = 'fat-tree', k = 4, hosts = 1 }");
    assert_eq!(walk(&tree, "e1-1", "e4-2").len(), 5);
    assert_eq!(walk(&tree, "e1-1", "e1-2").len(), 3);
    let random = short("shape = { kind = 'random', nodes = 40, degree = 3, seed = 5 }");
    for router in 2..=40 {
        walk(&random, "r1", &format!("r{router}"));
    }
}

#[test]
fn neighbouring_networks_share_routes() {
    let chain = short("shape = { kind = 'chain', nodes = 256 }");
    let most = chain.nodes.iter().map(|node| node.routes.len()).max();
    assert!(most < Some(16), "{most:?}");
}

#[test]
fn a_host_has_an_address_and_a_way_out() {
    let star = short("shape = { kind = 'star', nodes = 3, hosts = 2 }");
    let host = star
        .nodes
        .iter()
        .position(|node| node.name == "h2.2")
        .unwrap();
    assert_eq!(star.nodes[host].routes, ["default via 10.0.1.4"]);
    let link = star
        .links
        .iter()
        .find(|link| link.ends[1].node == host)
        .unwrap();
    assert_eq!(link.ends[0].addresses, ["10.0.1.4/31"]);
    assert_eq!(link.ends[1].addresses, ["10.0.1.5/31"]);
}

#[test]
fn a_link_has_qdiscs_both_ways() {
    let text = "
        link = { delay = '1ms', rate = '10mbit' }
        [nodes.a]
        [nodes.b]
        role = 'host'
        [[links]]
        ends = ['a:up', 'b']
        delay = '5ms'
        jitter = '1ms'
        queue = 'fq_codel limit 100'
        back = { loss = '1%', queue = '' }
    ";
    let script = script::write(&short(text), "t.toml");
    let expected = "tc -n a -batch - <<'END'
qdisc add dev up root handle 1: netem delay 5ms 1ms rate 10mbit
qdisc add dev up parent 1:1 handle 10: fq_codel limit 100
END
";
    assert!(script.contains(expected), "{script}");
    let expected = "qdisc add dev eth0 root handle 1: netem delay 5ms 1ms loss 1% rate 10mbit\nEND";
    assert!(script.contains(expected), "{script}");
    assert!(!script.contains("ip netns exec b sysctl"), "{script}");
}

/// A process has 1,024 files by default, and `ip -batch` keeps two open for each link.
#[test]
fn a_batch_makes_few_links() {
    let script = script::write(&short("shape = { kind = 'chain', nodes = 2000 }"), "t.toml");
    let links = |part: &str| {
        part.lines()
            .filter(|line| line.starts_with("link add"))
            .count()
    };
    let batches: Vec<usize> = script.split("END\n").map(links).collect();
    assert_eq!(batches.iter().sum::<usize>(), 1999);
    assert!(batches.iter().all(|links| 2 * links < 1000), "{batches:?}");
}

/// The error of a short form.
#[track_caller]
fn wrong(text: &str) -> String {
    short::parse(text).unwrap_err().to_string()
}

#[test]
fn errors_name_their_line() {
    assert_eq!(
        wrong("\nshape = { kind = 'ring', nodes = 0 }"),
        "line 2: shape: nodes is from 1 to 65536"
    );
    assert!(wrong("[nodes.a]\ncolour = 1").starts_with("line 2: unknown field `colour`"));
    assert!(wrong("a = = 1").starts_with("line 1: "));
    assert_eq!(wrong(""), "there is neither a shape nor a node");
    let pair = "[nodes.a]\n[nodes.b]\n[[links]]\n";
    assert_eq!(
        wrong(&format!("{pair}ends = ['a', 'c']")),
        "line 3: there is no node \"c\""
    );
    assert_eq!(
        wrong(&format!(
            "{pair}ends = ['a:e', 'b']\n[[links]]\nends = ['a:e', 'b']"
        )),
        "line 5: a has a device e already"
    );
    assert_eq!(
        wrong(&format!(
            "{pair}ends = ['a', 'b']\ndelay = \"1ms\\nlink del lo\""
        )),
        "line 3: delay: \"1ms\\nlink del lo\" is not a valid value"
    );
    assert_eq!(
        wrong(&format!(
            "{pair}ends = ['a', 'b']\naddresses = ['10.0.0.1/33', '']"
        )),
        "line 3: \"10.0.0.1/33\" is not an address with its prefix length"
    );
    assert_eq!(
        wrong("[nodes.'x y']"),
        "line 1: node \"x y\": a name consists of letters, digits, dots, dashes and underscores"
    );
    assert_eq!(
        wrong("shape = { kind = 'fat-tree', k = 3 }"),
        "line 1: shape: k is even and from 2 to 200"
    );
    let most = "line 1: shape: there are at most 65536 nodes and 500000 links";
    for shape in [
        "kind = 'chain', nodes = 65536, hosts = 1",
        "kind = 'random', nodes = 60000, degree = 100",
        "kind = 'fat-tree', k = 200",
    ] {
        assert_eq!(wrong(&format!("shape = {{ {shape} }}")), most);
    }
    let many = wrong("shape = { kind = 'star', nodes = 5000 }");
    assert!(
        many.starts_with("routes along the shortest paths are for at most 4096 routers"),
        "{many}"
    );
    let none = short("routes = 'none'\nshape = { kind = 'star', nodes = 5000 }");
    assert_eq!(none.links.len(), 4999);
    assert_eq!(
        wrong("shape = { kind = 'chain', nodes = 3, seed = 3 }"),
        "line 1: shape: only a random graph has degree and seed"
    );
}

const CLAB: &str = "name: lab
topology:
  defaults:
    sysctls:
      net.ipv4.conf.all.rp_filter: 0
  kinds:
    linux:
      image: alpine
  nodes:
    r1:
      kind: nokia_srlinux
    h1:
      exec:
        - ip address add 10.0.0.1/24 dev eth1
    sw:
      kind: bridge
  links:
    - endpoints: [\"r1:e1-1\", \"h1:eth1\"]
      mtu: 9000
    - type: veth
      endpoints:
        - node: h1
          interface: eth2
          mac: 02:00:00:00:00:01
        - node: sw
          interface: p1
";

#[test]
fn containerlab_is_read() {
    let topology = containerlab::parse(CLAB).unwrap();
    let roles: Vec<_> = topology
        .nodes
        .iter()
        .map(|node| (node.name.as_str(), node.role))
        .collect();
    let expected = [
        ("r1", Role::Router),
        ("h1", Role::Host),
        ("sw", Role::Switch),
    ];
    assert_eq!(roles, expected);
    assert_eq!(topology.links[0].mtu, Some(9000));
    assert_eq!(
        topology.links[1].ends[0].mac.as_deref(),
        Some("02:00:00:00:00:01")
    );
    assert_eq!(
        topology.nodes[1].run,
        ["ip address add 10.0.0.1/24 dev eth1"]
    );
    let expected = [("net.ipv4.conf.all.rp_filter".to_owned(), "0".to_owned())];
    assert_eq!(topology.nodes[0].sysctls, expected);
    let expected = [
        "image: nodes are namespaces and have none",
        "kind nokia_srlinux: the node is a namespace that forwards",
    ];
    assert_eq!(topology.notes, expected);
}

#[test]
fn containerlab_errors_name_their_line() {
    let wrong = |from: &str, to: &str| {
        let text = CLAB.replacen(from, to, 1);
        assert_ne!(text, CLAB);
        containerlab::parse(&text).unwrap_err().to_string()
    };
    assert_eq!(
        wrong("h1:eth1", "h9:eth1"),
        "line 18: topology.links[0].endpoints[1]: there is no node \"h9\""
    );
    assert_eq!(
        wrong("h1:eth1", "host:eth1"),
        "line 18: topology.links[0].endpoints[1]: links to host are not served"
    );
    assert_eq!(
        wrong("9000", "big"),
        "line 19: topology.links[0].mtu: this is not a number"
    );
    assert!(
        wrong("type: veth", "type: vxlan")
            .ends_with("links of type vxlan are not served, only veth")
    );
    assert!(
        wrong("  links:", "  wires:").ends_with("topology.wires: containerlab has no such key")
    );
    assert!(wrong("[\"r1:e1-1\"", "[\"r1:e1-1").starts_with("line "));
}

#[test]
fn mininet_is_read() {
    let text = r#"{
        "application": {"ipBase": "10.1.0.0/16"},
        "controllers": [{"opts": {"hostname": "c0"}}],
        "hosts": [
            {"number": "1", "opts": {"hostname": "h1", "nodeNum": 1, "sched": "host"}},
            {"number": "2", "opts": {"hostname": "h2", "ip": "10.1.9.9", "defaultRoute": "10.1.0.254", "startCommand": "ip link"}}
        ],
        "links": [
            {"src": "h1", "dest": "s1", "opts": {"loss": 1, "bw": 10, "delay": "5ms", "max_queue_size": 100}},
            {"src": "s1", "dest": "h2", "opts": {}}
        ],
        "switches": [{"number": "1", "opts": {"controllers": ["c0"], "hostname": "s1", "switchType": "default"}}],
        "version": "2"
    }"#;
    let topology = mininet::parse(text).unwrap();
    let script = script::write(&topology, "t.mn");
    for line in [
        "link add eth0 netns h1 type veth peer name eth0 netns s1",
        "address add 10.1.0.1/16 dev eth0",
        "address add 10.1.9.9/16 dev eth0",
        "route add default via 10.1.0.254",
        "qdisc add dev eth0 root handle 1: netem delay 5ms loss 1% rate 10mbit limit 100",
        "link set eth1 master br0 up",
        "ip netns exec h2 sh -c 'ip link'",
    ] {
        assert!(script.contains(&format!("{line}\n")), "{line}: {script}");
    }
    assert_eq!(
        topology.notes,
        ["controllers: switches are bridges that learn addresses"]
    );
    let broken = text.replace("\"s1\", \"opts\"", "\"s7\", \"opts\"");
    let error = mininet::parse(&broken).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 9: links[0]: there is no node \"s7\""
    );
}
