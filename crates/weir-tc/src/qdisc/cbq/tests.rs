// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of cbq with packets under virtual time, and of its requests and dumps.

use weir_netlink::errno::{EBUSY, EINVAL, EOPNOTSUPP};
use weir_netlink::tca::cbq as attr;
use weir_netlink::{
    Attr, Attrs, Fixed, TcCbqFopt, TcCbqLssOpt, TcCbqWrrOpt, TcMsg, TcRateSpec, Writer,
};

use crate::qdisc::tests::{Arrival, Line, START, traffic};
use crate::testing::vectors;

const QDISC: &str = "tc qdisc add dev d0 root handle 1: cbq bandwidth 100mbit avpkt 1000";
/// 8 Mbit/s, bounded: a byte takes 1 us.
const PARENT: &str = "tc class add dev d0 parent 1: classid 1:1 cbq bandwidth 100mbit rate 8mbit allot 1500 prio 5 bounded isolated avpkt 1000";
const BOUNDED_2: &str = "tc class add dev d0 parent 1: classid 1:2 cbq bandwidth 100mbit rate 2mbit allot 1500 prio 5 bounded isolated avpkt 1000 maxburst 10";

const MS: u64 = 1_000_000;

/// Returns the recorded command for a class below 1:1.
fn child(minor: u32) -> String {
    let all = vectors(include_str!("../../../tests/vectors/cbq.vec"));
    let start = format!("tc class add dev d0 parent 1:1 classid 1:{minor} cbq");
    let mut found = all.into_iter().map(|(command, _)| command);
    found.find(|command| command.starts_with(&start)).unwrap()
}

/// Makes a line with children of 1:1.
fn line(children: &[u32]) -> Line {
    let mut commands = vec![QDISC.to_owned(), PARENT.to_owned()];
    commands.extend(children.iter().map(|&minor| child(minor)));
    let commands: Vec<_> = commands.iter().map(String::as_str).collect();
    Line::new(&commands)
}

/// Packets of 1000 bytes of a class, each `gap` ns.
fn load(class: u32, count: usize, gap: u64) -> Vec<Arrival> {
    let arrival = |at| Arrival {
        time: START + at as u64 * gap,
        len: 1000,
        priority: class,
        ..Arrival::default()
    };
    (0..count).map(arrival).collect()
}

/// Returns the rate in bit/s of packets with a priority that left from `from` to `to`.
fn rate(line: &Line, class: u32, from: u64, to: u64) -> f64 {
    let of = |number: u32| line.arrivals[number as usize];
    let left = line
        .left
        .iter()
        .filter(|(time, number)| (from..to).contains(time) && of(*number).priority == class);
    let octets: usize = left.map(|(_, number)| of(*number).len).sum();
    octets as f64 * 8e9 / (to - from) as f64
}

/// Plays arrivals of several classes in the order of their times. Returns the rates from 100 ms
/// after the start to `end` after it.
fn rates(line: &mut Line, mut arrivals: Vec<Arrival>, classes: &[u32], end: u64) -> Vec<f64> {
    arrivals.sort_by_key(|arrival| arrival.time);
    line.run(&arrivals);
    let rate = |class: &u32| rate(line, *class, START + 100 * MS, START + end);
    classes.iter().map(rate).collect()
}

#[track_caller]
fn is_near(rate: f64, expected: f64, tolerance: f64) {
    let error = (rate / expected - 1.0).abs();
    assert!(error < tolerance, "{rate} is not {expected}");
}

/// The tolerance for the rate of a class by itself, and of a parent with several children.
const ONE: f64 = 0.02;
const SEVERAL: f64 = 0.03;

#[test]
fn a_bounded_class_keeps_its_rate() {
    for (class, command, expected) in [(0x1_0001, PARENT, 8e6), (0x1_0002, BOUNDED_2, 2e6)] {
        let mut line = Line::new(&[QDISC, command]);
        let arrivals = load(class, 900, MS / 4);
        is_near(
            rates(&mut line, arrivals, &[class], 600 * MS)[0],
            expected,
            ONE,
        );
        let (_, packets, queue) = line.root();
        assert_eq!((packets, queue.drops), (900, 0));
        assert!(queue.overlimits > 0);
    }
}

#[test]
fn a_bounded_class_keeps_its_rate_with_packets_of_all_sizes() {
    let mut line = Line::new(&[QDISC, BOUNDED_2]);
    let mut arrivals = traffic(5, 900, 2 * MS);
    for arrival in &mut arrivals {
        (arrival.priority, arrival.len) = (0x1_0002, arrival.len / 8 * 8);
    }
    let rate = rates(&mut line, arrivals, &[0x1_0002], 1500 * MS)[0];
    // A class that sleeps does not pay its whole debt.
    assert!((1.98e6..2.12e6).contains(&rate), "{rate}");
}

#[test]
fn a_burst_leaves_at_once() {
    let mut line = Line::new(&[QDISC, BOUNDED_2]);
    line.run(&load(0x1_0002, 40, 0));
    let at_once = line.left.iter().filter(|(time, _)| *time == START).count();
    // `maxburst 10` counts packets of `avpkt` bytes at the bandwidth of the link.
    assert!((8..=12).contains(&at_once), "{at_once}");
}

#[test]
fn a_class_borrows_unless_it_is_bounded() {
    let of = |minor: u32, class: u32| {
        let mut line = line(&[minor]);
        let rate = rates(&mut line, load(class, 900, MS / 2), &[class], 600 * MS)[0];
        let root = line.stack.devices[&3].tc.tree().root.clone().unwrap();
        let inner = root.lock();
        let stats = inner.qdisc.class_stats(inner.qdisc.find(class)).unwrap();
        let borrows = u32::from_ne_bytes(stats.app.unwrap()[..4].try_into().unwrap());
        (rate, borrows)
    };
    let (borrowing, borrows) = of(11, 0x1_0011);
    is_near(borrowing, 8e6, ONE);
    assert!(borrows > 400, "{borrows}");
    let (bounded, borrows) = of(13, 0x1_0013);
    is_near(bounded, 2e6, ONE);
    assert_eq!(borrows, 0);
}

#[test]
fn classes_keep_their_shares_of_a_full_parent() {
    let mut line = line(&[11, 12]);
    let mut arrivals = load(0x1_0011, 3600, MS / 2);
    arrivals.extend(load(0x1_0012, 3600, MS / 2));
    let found = rates(&mut line, arrivals, &[0x1_0011, 0x1_0012], 1800 * MS);
    is_near(found[0], 2e6, SEVERAL);
    is_near(found[1], 6e6, SEVERAL);
}

#[test]
fn an_isolated_class_leaves_the_parents_bandwidth_to_the_others() {
    let mut line = line(&[11, 14]);
    let mut arrivals = load(0x1_0011, 3600, MS / 2);
    arrivals.extend(load(0x1_0014, 3600, MS / 2));
    let found = rates(&mut line, arrivals, &[0x1_0011, 0x1_0014], 1800 * MS);
    // The parent is not charged for 1:14, so 1:11 borrows all its 8 Mbit/s.
    is_near(found[0], 8e6, SEVERAL);
    is_near(found[1], 6e6, SEVERAL);
    let mut line = self::line(&[11, 13]);
    let mut arrivals = load(0x1_0011, 3600, MS / 2);
    arrivals.extend(load(0x1_0013, 3600, MS / 2));
    let found = rates(&mut line, arrivals, &[0x1_0011, 0x1_0013], 1800 * MS);
    // It is charged for 1:13.
    is_near(found[0], 6e6, SEVERAL);
    is_near(found[1], 2e6, SEVERAL);
}

#[test]
fn the_first_priority_borrows_before_the_others() {
    let mut line = line(&[15, 16]);
    let mut arrivals = load(0x1_0015, 3600, MS / 2);
    arrivals.extend(load(0x1_0016, 3600, MS / 2));
    let found = rates(&mut line, arrivals, &[0x1_0015, 0x1_0016], 1800 * MS);
    assert!(found[0] > 7.7e6 && found[1] < 0.2e6, "{found:?}");
}

#[test]
fn turns_share_by_weight() {
    let mut line = line(&[16, 17]);
    let mut arrivals = load(0x1_0016, 3600, MS / 2);
    arrivals.extend(load(0x1_0017, 3600, MS / 2));
    let found = rates(&mut line, arrivals, &[0x1_0016, 0x1_0017], 1800 * MS);
    is_near(found[0] + found[1], 8e6, SEVERAL);
    let ratio = found[1] / found[0];
    assert!((2.8..3.2).contains(&ratio), "{found:?}");
}

/// Sends the request of a recorded command. Returns the errno and the text of the error.
fn ask(line: &Line, command: &str) -> Result<(), (i32, String)> {
    let all = vectors(include_str!("../../../tests/vectors/cbq.vec"));
    let (_, datagrams) = all.iter().find(|(found, _)| found == command).unwrap();
    for bytes in datagrams {
        line.stack.request(bytes).map_err(|error| {
            let text = error.message.map(|text| text.to_string());
            (error.errno, text.unwrap_or_default())
        })?;
    }
    Ok(())
}

/// Returns the message and the options of a class as a dump shows them.
fn dumped(line: &Line, classid: u32) -> (TcMsg, Vec<(u16, Vec<u8>)>) {
    let root = line.stack.devices[&3].tc.tree().root.clone().unwrap();
    let (mut tcm, mut w) = (TcMsg::default(), Writer::new());
    let inner = root.lock();
    match classid {
        0 => inner.qdisc.dump(&mut w),
        id => inner
            .qdisc
            .dump_class(inner.qdisc.find(id), &mut tcm, &mut w),
    }
    let options = Attrs::new(w.bytes(), 0).next().unwrap();
    let parts = Attrs::new(options.payload, 0);
    (
        tcm,
        parts
            .map(|a: Attr<'_>| (a.ty, a.payload.to_vec()))
            .collect(),
    )
}

#[test]
fn a_dump_shows_all_parameters() {
    let mut commands = vec![
        "tc qdisc add dev d0 root handle 1: cbq bandwidth 100mbit avpkt 1000 cell 16 ewma 7 mpu 64".to_owned(),
        "tc class add dev d0 parent 1: classid 1:1 cbq bandwidth 100mbit rate 8mbit allot 1500 prio 5 bounded isolated avpkt 1000 maxburst 10 minburst 2 minidle 100".to_owned(),
    ];
    commands.extend([child(11), child(18)]);
    let commands: Vec<_> = commands.iter().map(String::as_str).collect();
    let line = Line::new(&commands);

    let (_, link) = dumped(&line, 0);
    assert_eq!(dumped(&line, 0x1_0000).1, link);
    let kinds: Vec<_> = link.iter().map(|(ty, _)| *ty).collect();
    assert_eq!(kinds, [attr::LSSOPT, attr::RATE, attr::WRROPT]);
    let lss = TcCbqLssOpt::from_bytes(&link[0].1).unwrap();
    assert_eq!(
        (lss.change, lss.flags, lss.ewma_log, lss.level),
        (255, 3, 7, 2)
    );
    assert_eq!(
        (lss.minidle, lss.offtime, lss.avpkt),
        (0x7fff_ffff, 0, 1000)
    );
    let rate = TcRateSpec::from_bytes(&link[1].1).unwrap();
    assert_eq!((rate.rate, rate.cell_log, rate.mpu), (12_500_000, 4, 64));
    assert_eq!((rate.cell_align, rate.linklayer), (-1, 1));
    let wrr = TcCbqWrrOpt::from_bytes(&link[2].1).unwrap();
    assert_eq!((wrr.priority, wrr.cpriority), (8, 8));
    assert_eq!((wrr.allot, wrr.weight), (1514, 12_500_000));

    let (tcm, parent) = dumped(&line, 0x1_0001);
    assert_eq!((tcm.parent, tcm.handle), (0x1_0000, 0x1_0001));
    let lss = TcCbqLssOpt::from_bytes(&parent[0].1).unwrap();
    assert_eq!((lss.flags, lss.ewma_log, lss.level), (3, 5, 1));
    assert!(lss.offtime > 0 && lss.maxidle > 0, "{lss:?}");

    let (_, child) = dumped(&line, 0x1_0011);
    let lss = TcCbqLssOpt::from_bytes(&child[0].1).unwrap();
    assert_eq!((lss.flags, lss.level), (0, 0));
    assert_eq!(child.len(), 3);
    let (tcm, split) = dumped(&line, 0x1_0018);
    assert_eq!(tcm.parent, 0x1_0001);
    let fopt = TcCbqFopt::from_bytes(&split[3].1).unwrap();
    assert_eq!(
        (fopt.split, fopt.defmap, fopt.defchange),
        (0x1_0000, 0xc0, u32::MAX)
    );

    // Bits outside the mask stay.
    let change = "tc class change dev d0 parent 1:1 classid 1:18 cbq bandwidth 100mbit rate 2mbit allot 1500 prio 3 split 1: defmap 40/ff";
    assert_eq!(ask(&line, change), Ok(()));
    let fopt = TcCbqFopt::from_bytes(&dumped(&line, 0x1_0018).1[3].1).unwrap();
    assert_eq!(fopt.defmap, 0x40);
}

#[test]
fn wrong_requests_are_refused_as_by_linux() {
    let line = line(&[11, 18]);
    let invalid = |text: &str| Err((EINVAL, text.to_owned()));
    let rate = "cbq bandwidth 100mbit rate 2mbit allot 1500 prio 3";
    let missing = format!("tc class add dev d0 parent 1:9 classid 1:20 {rate} avpkt 1000");
    assert_eq!(ask(&line, &missing), invalid("Failed to find parentid"));
    let elsewhere = format!("tc class change dev d0 parent 1:2 classid 1:18 {rate}");
    assert_eq!(ask(&line, &elsewhere), invalid("Invalid parent id"));
    let busy = Err((EBUSY, String::new()));
    assert_eq!(ask(&line, "tc class del dev d0 classid 1:1"), busy);
    // A class without an id gets one.
    let generated = format!("tc class add dev d0 parent 1: {rate} avpkt 1000");
    assert_eq!(ask(&line, &generated), Ok(()));
    assert_eq!(dumped(&line, 0x1_8001).0.handle, 0x1_8001);
    assert_eq!(ask(&line, "tc class del dev d0 classid 1:11"), Ok(()));
    assert_eq!(ask(&line, "tc class del dev d0 classid 1:18"), Ok(()));
    // As in Linux, a class that lost its children keeps level 1.
    let lss = TcCbqLssOpt::from_bytes(&dumped(&line, 0x1_0001).1[0].1).unwrap();
    assert_eq!(lss.level, 1);
    assert_eq!(ask(&line, "tc class del dev d0 classid 1:1"), Ok(()));
}

#[test]
fn wrong_options_are_refused_as_by_linux() {
    let line = line(&[]);
    let all = vectors(include_str!("../../../tests/vectors/cbq.vec"));
    let (_, datagrams) = all.iter().find(|(found, _)| *found == child(11)).unwrap();
    let request = datagrams.last().unwrap();
    let find = |ty: u16, len: usize| {
        let header = [(len as u16 + 4).to_ne_bytes(), ty.to_ne_bytes()].concat();
        request
            .windows(4)
            .position(|window| window == header)
            .unwrap()
    };
    let refusal = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut request = request.clone();
        change(&mut request);
        let error = line.stack.request(&request).unwrap_err();
        (
            error.errno,
            error
                .message
                .map(|text| text.to_string())
                .unwrap_or_default(),
        )
    };
    let (wrr, rate, table) = (find(2, 12), find(5, 12), find(6, 1024));
    assert_eq!(
        refusal(&|request| request[wrr + 5] = 9),
        (EINVAL, "priority is bigger than TC_CBQ_MAXPRIO".to_owned())
    );
    let message = "Invalid rate table parameters for searching".to_owned();
    assert_eq!(
        refusal(&|request| request[rate + 4] = 0),
        (EINVAL, message.clone())
    );
    assert_eq!(
        refusal(&|request| request[table + 2] = 99),
        (EINVAL, message)
    );
    let message = "One of the following attributes MUST be specified: WRR, rate or link sharing";
    assert_eq!(
        refusal(&|request| request[wrr + 2] = 99),
        (EINVAL, message.to_owned())
    );
    let message =
        "Neither overlimit strategy nor policing attributes can be used for changing class params";
    let strategy = attr::OVL_STRATEGY as u8;
    assert_eq!(
        refusal(&|request| request[wrr + 2] = strategy),
        (EOPNOTSUPP, message.to_owned())
    );
}

#[test]
fn a_split_node_chooses_by_priority() {
    let mut line = line(&[18, 19]);
    // The link knows 6 and 7. Its own queue takes the others, since it has no class for best effort.
    let arrivals: Vec<_> = [6, 7, 6, 0, 3]
        .into_iter()
        .map(|priority| Arrival {
            time: START,
            len: 1000,
            priority,
            ..Arrival::default()
        })
        .collect();
    line.run(&arrivals);
    let root = line.stack.devices[&3].tc.tree().root.clone().unwrap();
    let inner = root.lock();
    let packets = |id| {
        let leaf = inner.qdisc.leaf(inner.qdisc.find(id)).unwrap();
        leaf.stats().1
    };
    assert_eq!([0x1_0018, 0x1_0019, 0x1_0000].map(packets), [3, 0, 2]);
}
