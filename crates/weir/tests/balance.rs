// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir balance`: the script of the example, what it refuses, and its filters for tc.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::fs;

use common::{Folder, WEIR};
use serde_json::Value;

const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/load-balancer/service.sh"
);
const TRAFFIC: &str = "lan0=proto=tcp,rate=20000,stop=4s,flows=5000,zipf=0.7,src=10.1.0.2,\
                       dst=192.0.2.80,dport=80,seed=1";

/// Runs a script for each user. Returns what the first printed.
fn run(arguments: &[&str], script: &str) -> String {
    let folder = Folder::new();
    let file = folder.0.join("script.sh");
    fs::write(&file, script).unwrap();
    let mut first = None;
    for &user in common::users() {
        let mut command = common::command(user, WEIR);
        command.env("WEIR", WEIR).arg("run").args(arguments);
        let output = common::output(command.args(["--", "sh"]).arg(&file));
        let errors = common::text(&output.stderr);
        assert!(output.status.success(), "{user:?}: {errors}");
        let text = common::text(&output.stdout) + &errors;
        assert_eq!(*first.get_or_insert(text.clone()), text, "{user:?}");
    }
    first.unwrap()
}

#[test]
fn flows_are_kept_while_backends_come_and_go() {
    if !common::has("tc", "iproute2") {
        return;
    }
    let script = fs::read_to_string(SCRIPT).unwrap() + "\"$weir\" stat balance --json\n";
    let text = run(&["--gen", TRAFFIC], &script);
    let start = text.find("[\n").unwrap();
    let end = start + text[start..].find("\n]").unwrap() + 2;
    let data: Value = serde_json::from_str(&text[start..end]).unwrap();
    let of = |key: &str| data[0][key].as_u64().unwrap();
    assert_eq!(data[0]["service"], "tcp:192.0.2.80:80");
    assert_eq!(data[0]["backends"].as_array().unwrap().len(), 5);
    assert_eq!((of("packets"), of("dropped")), (80_000, 0));
    // Each flow was new once: the memory had room for all.
    assert!((4_900..=5_000).contains(&of("new")), "{text}");
    // Only the flows of the backend that failed moved: a quarter of those that sent in the second after it.
    assert!((700..1_250).contains(&of("moved")), "{text}");
    assert!(of("kept") > 9 * of("moved"), "{text}");
    // The table moves flows also when a backend returns, and when one is added.
    assert!(of("table_moved") > 2 * of("moved"), "{text}");
    // All packets left towards a backend.
    let dmz = text
        .lines()
        .find(|line| line.trim_start().starts_with("dmz0 "));
    assert!(dmz.is_some_and(|line| line.contains("80,000")), "{text}");
}

#[test]
fn requests_that_cannot_be_served_are_refused() {
    if !common::has("tc", "iproute2") {
        return;
    }
    let script = "ip link add lan0 type dummy; ip link set lan0 up
        $WEIR balance add lan0 tcp:192.0.2.80:80 10.9.0.1 [2001:db8::1]:80
        $WEIR balance add lan0 tcp:192.0.2.80:80 10.9.0.1 10.9.0.1:80
        $WEIR balance add --replies dmz0 lan0 tcp:192.0.2.80:80 10.9.0.1
        $WEIR balance add none/lan0 tcp:192.0.2.80:80 10.9.0.1
        $WEIR balance set tcp:192.0.2.80:80 10.9.0.1
        tc qdisc show dev lan0; tc qdisc add dev lan0 clsact
        tc filter add dev lan0 ingress pref 1001 protocol arp matchall action pass 2>&1
        $WEIR stat balance
        $WEIR balance add lan0 tcp:192.0.2.80:80 10.9.0.1
        tc filter del dev lan0 ingress pref 1001
        $WEIR balance add --replies lan0 lan0 tcp:192.0.2.80:80
        $WEIR balance add lan0 tcp:192.0.2.80:80 10.9.0.1
        tc filter show dev lan0 ingress | grep -e pref -e index | sort -u
        tc filter del dev lan0 ingress pref 1001
        $WEIR stat balance";
    let script = format!("exec 2>&1\n{script}\n");
    let text = run(&[], &script);
    let expected = "\
weir: act_balance: A backend differs from the service in family or protocol
weir: act_balance: A backend is listed twice
weir: there is no device dmz0
weir: there is no namespace none
weir: the namespace does not balance tcp:192.0.2.80:80
qdisc noqueue 0: root refcnt 2 
no namespace balances a service
weir: Filter with specified priority/protocol not found
balancer 1: filters with preference 1001
weir: the namespace balances tcp:192.0.2.80:80 already; `weir balance set` changes the backends
\t index 1 ref 1 bind 1
filter protocol ip pref 1001 matchall chain 0 
filter protocol ip pref 1001 matchall chain 0 handle 0x1 
no namespace balances a service
";
    let (printed, _) = text.split_once("Time ").unwrap();
    assert_eq!(printed, expected);
}

#[test]
fn a_service_goes_with_its_filters_and_nothing_else() {
    if !common::has("tc", "iproute2") {
        return;
    }
    let script = "for n in lan0 dmz0; do ip link add $n type dummy; ip link set $n up; done
        $WEIR balance add --replies dmz0 lan0 tcp:192.0.2.80:80 10.9.0.1
        $WEIR balance add --replies lan0 lan0 udp:192.0.2.80:53 10.9.0.1
        tc filter add dev lan0 ingress pref 7 matchall action pass
        $WEIR balance del tcp:192.0.2.80:81
        $WEIR balance del --netns none tcp:192.0.2.80:80
        $WEIR balance del tcp:192.0.2.80:80
        for n in lan0 dmz0; do tc filter show dev $n ingress | sed -n 's/ handle.*//p'; done
        $WEIR stat balance | head -n 1
        $WEIR balance del tcp:192.0.2.80:80
        $WEIR balance del udp:192.0.2.80:53
        $WEIR stat balance
        tc filter show dev lan0 ingress | sed -n 's/ handle.*//p'";
    let script = format!("exec 2>&1\n{script}\n");
    let text = run(&[], &script);
    let expected = "\
balancer 1: filters with preference 1001
balancer 2: filters with preference 1002
weir: the namespace does not balance tcp:192.0.2.80:81
weir: there is no namespace none
filter protocol all pref 7 matchall chain 0
filter protocol ip pref 1002 matchall chain 0
udp:192.0.2.80:53: 1 backends, index 2, 0 packets, 0 dropped
weir: the namespace does not balance tcp:192.0.2.80:80
no namespace balances a service
filter protocol all pref 7 matchall chain 0
";
    let (printed, _) = text.split_once("Time ").unwrap();
    assert_eq!(printed, expected);
}
