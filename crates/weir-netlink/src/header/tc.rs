// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traffic control: headers, statistics, and the parameters of kinds.

use super::fixed;

fixed! {
    /// `struct tcmsg`: qdiscs, classes, filters and chains. For a filter, `info` holds the priority
    /// << 16 and the protocol in network order.
    TcMsg(20) {
        family: u8,
        pad1: u8,
        pad2: u16,
        ifindex: i32,
        handle: u32,
        /// `tcm_block_index` if `ifindex` is `TCM_IFINDEX_MAGIC_BLOCK`.
        parent: u32,
        info: u32,
    }

    /// `struct tcamsg`: actions.
    TcaMsg(4) { family: u8, pad1: u8, pad2: u16 }

    /// `struct tc_stats`: `TCA_STATS`.
    TcStats(40) {
        bytes: u64,
        packets: u32,
        drops: u32,
        overlimits: u32,
        bps: u32,
        pps: u32,
        qlen: u32,
        backlog: u32,
        pad: u32,
    }

    /// `struct gnet_stats_basic`: `TCA_STATS_BASIC`.
    GnetStatsBasic(16) { bytes: u64, packets: u32, pad: u32 }

    /// `struct gnet_stats_rate_est`: `TCA_STATS_RATE_EST`.
    GnetStatsRateEst(8) { bps: u32, pps: u32 }

    /// `struct gnet_stats_rate_est64`: `TCA_STATS_RATE_EST64`.
    GnetStatsRateEst64(16) { bps: u64, pps: u64 }

    /// `struct gnet_stats_queue`: `TCA_STATS_QUEUE`.
    GnetStatsQueue(20) { qlen: u32, backlog: u32, drops: u32, requeues: u32, overlimits: u32 }

    /// `struct gnet_estimator`: `TCA_RATE`.
    GnetEstimator(2) { interval: i8, ewma_log: u8 }

    /// `struct tcf_t`: ages of an action in 1/100 s.
    TcfT(32) { install: u64, lastuse: u64, expires: u64, firstuse: u64 }

    /// `tc_gen`, with which every action's parameters begin; on its own it is `struct tc_gact`.
    TcGen(20) { index: u32, capab: u32, action: i32, refcnt: i32, bindcnt: i32 }

    /// `struct tc_gact_p`: `TCA_GACT_PROB`.
    TcGactP(8) { ptype: u16, pval: u16, paction: i32 }

    /// `struct tc_mirred`: `TCA_MIRRED_PARMS`.
    TcMirred(28) { common: TcGen, eaction: i32, ifindex: u32 }

    /// `struct tc_ife`: `TCA_IFE_PARMS`.
    TcIfe(24) { common: TcGen, flags: u16, pad: u16 }

    /// `struct tc_vlan`: `TCA_VLAN_PARMS`.
    TcVlan(24) { common: TcGen, v_action: i32 }

    /// `struct tc_mpls`: `TCA_MPLS_PARMS`.
    TcMpls(24) { common: TcGen, m_action: i32 }

    /// `struct tc_tunnel_key`: `TCA_TUNNEL_KEY_PARMS`.
    TcTunnelKey(24) { common: TcGen, t_action: i32 }

    /// `struct tc_csum`: `TCA_CSUM_PARMS`.
    TcCsum(24) { common: TcGen, update_flags: u32 }

    /// `struct tc_skbmod`: `TCA_SKBMOD_PARMS`.
    TcSkbMod(32) { common: TcGen, pad: u32, flags: u64 }

    /// `struct tc_nat`: `TCA_NAT_PARMS`, with addresses in network order.
    TcNat(36) { common: TcGen, old_addr: [u8; 4], new_addr: [u8; 4], mask: [u8; 4], flags: u32 }

    /// `struct tc_connmark`: `TCA_CONNMARK_PARMS`.
    TcConnMark(24) { common: TcGen, zone: u16, pad: u16 }

    /// `struct tc_pedit_sel`, followed by its keys.
    TcPeditSel(24) { common: TcGen, nkeys: u8, flags: u8, pad: u16 }

    /// `struct tc_pedit_key`.
    TcPeditKey(24) { mask: u32, val: u32, off: u32, at: u32, offmask: u32, shift: u32 }

    /// `struct tc_ratespec`.
    TcRateSpec(12) {
        cell_log: u8,
        linklayer: u8,
        overhead: u16,
        cell_align: i16,
        mpu: u16,
        rate: u32,
    }

    /// `struct tc_police`: `TCA_POLICE_TBF`.
    TcPolice(56) {
        index: u32,
        action: i32,
        limit: u32,
        burst: u32,
        mtu: u32,
        rate: TcRateSpec,
        peakrate: TcRateSpec,
        refcnt: i32,
        bindcnt: i32,
        capab: u32,
    }

    /// `struct tc_u32_key`, with mask and value in network order.
    TcU32Key(16) { mask: u32, val: u32, off: i32, offmask: i32 }

    /// `struct tc_u32_sel`, followed by its keys.
    TcU32Sel(16) {
        flags: u8,
        offshift: u8,
        nkeys: u8,
        pad1: u8,
        /// Network order.
        offmask: u16,
        off: u16,
        offoff: i16,
        hoff: i16,
        /// Network order.
        hmask: u32,
    }

    /// `struct tc_u32_mark`.
    TcU32Mark(12) { val: u32, mask: u32, success: u32 }

    /// `struct tc_fifo_qopt`: packets or bytes.
    TcFifoQopt(4) { limit: u32 }

    /// `struct tc_prio_qopt`.
    TcPrioQopt(20) { bands: i32, priomap: [u8; 16] }

    /// `struct tc_multiq_qopt`.
    TcMultiqQopt(4) { bands: u16, max_bands: u16 }

    /// `struct tc_mqprio_qopt`.
    TcMqprioQopt(82) {
        num_tc: u8,
        prio_tc_map: [u8; 16],
        hw: u8,
        count: [u16; 16],
        offset: [u16; 16],
    }

    /// `struct tc_plug_qopt`.
    TcPlugQopt(8) { action: i32, limit: u32 }

    /// `struct tc_tbf_qopt`.
    TcTbfQopt(36) {
        rate: TcRateSpec,
        peakrate: TcRateSpec,
        limit: u32,
        buffer: u32,
        mtu: u32,
    }

    /// `struct tc_htb_opt`.
    TcHtbOpt(44) {
        rate: TcRateSpec,
        ceil: TcRateSpec,
        buffer: u32,
        cbuffer: u32,
        quantum: u32,
        level: u32,
        prio: u32,
    }

    /// `struct tc_htb_glob`.
    TcHtbGlob(20) { version: u32, rate2quantum: u32, defcls: u32, debug: u32, direct_pkts: u32 }

    /// `struct tc_cbq_lssopt`: times in ticks of the packet scheduler, `avpkt` in bytes.
    TcCbqLssOpt(20) {
        change: u8,
        flags: u8,
        ewma_log: u8,
        level: u8,
        maxidle: u32,
        minidle: u32,
        offtime: u32,
        avpkt: u32,
    }

    /// `struct tc_cbq_wrropt`.
    TcCbqWrrOpt(12) { flags: u8, priority: u8, cpriority: u8, reserved: u8, allot: u32, weight: u32 }

    /// `struct tc_cbq_fopt`.
    TcCbqFopt(12) { split: u32, defmap: u32, defchange: u32 }

    /// `struct tc_cbq_ovl`.
    TcCbqOvl(8) { strategy: u8, priority2: u8, pad: u16, penalty: u32 }

    /// `struct tc_cbq_police`.
    TcCbqPolice(4) { police: u8, res1: u8, res2: u16 }

    /// `struct tc_hfsc_qopt`.
    TcHfscQopt(2) { defcls: u16 }

    /// `struct tc_service_curve`: bit/s, microseconds, bit/s.
    TcServiceCurve(12) { m1: u32, d: u32, m2: u32 }

    /// `struct tc_sfq_qopt`.
    TcSfqQopt(20) { quantum: u32, perturb_period: i32, limit: u32, divisor: u32, flows: u32 }

    /// `struct tc_sfq_qopt_v1`, with `struct tc_sfqred_stats`.
    TcSfqQoptV1(72) {
        v0: TcSfqQopt,
        depth: u32,
        headdrop: u32,
        limit: u32,
        qth_min: u32,
        qth_max: u32,
        wlog: u8,
        plog: u8,
        scell_log: u8,
        flags: u8,
        max_p: u32,
        prob_drop: u32,
        forced_drop: u32,
        prob_mark: u32,
        forced_mark: u32,
        prob_mark_head: u32,
        forced_mark_head: u32,
    }

    /// `struct tc_red_qopt`.
    TcRedQopt(16) {
        limit: u32,
        qth_min: u32,
        qth_max: u32,
        wlog: u8,
        plog: u8,
        scell_log: u8,
        flags: u8,
    }

    /// `struct tc_gred_qopt`.
    TcGredQopt(52) {
        limit: u32,
        qth_min: u32,
        qth_max: u32,
        dp: u32,
        backlog: u32,
        qave: u32,
        forced: u32,
        early: u32,
        other: u32,
        pdrop: u32,
        wlog: u8,
        plog: u8,
        scell_log: u8,
        prio: u8,
        packets: u32,
        bytesin: u32,
    }

    /// `struct tc_gred_sopt`.
    TcGredSopt(12) { dps: u32, def_dp: u32, grio: u8, flags: u8, pad1: u16 }

    /// `struct tc_netem_qopt`.
    TcNetemQopt(24) {
        latency: u32,
        limit: u32,
        loss: u32,
        gap: u32,
        duplicate: u32,
        jitter: u32,
    }

    /// `struct tc_netem_corr`: `TCA_NETEM_CORR`.
    TcNetemCorr(12) { delay_corr: u32, loss_corr: u32, dup_corr: u32 }

    /// `struct tc_netem_reorder`, `struct tc_netem_corrupt`.
    TcNetemReorder(8) { probability: u32, correlation: u32 }

    /// `struct tc_netem_rate`: `TCA_NETEM_RATE`.
    TcNetemRate(16) { rate: u32, packet_overhead: i32, cell_size: u32, cell_overhead: i32 }

    /// `struct tc_netem_slot`: `TCA_NETEM_SLOT`, in nanoseconds.
    TcNetemSlot(40) {
        min_delay: i64,
        max_delay: i64,
        max_packets: i32,
        max_bytes: i32,
        dist_delay: i64,
        dist_jitter: i64,
    }

    /// `struct tc_cbs_qopt`: bytes and kbit/s.
    TcCbsQopt(20) {
        offload: u8,
        pad: [u8; 3],
        hicredit: i32,
        locredit: i32,
        idleslope: i32,
        sendslope: i32,
    }

    /// `struct tc_etf_qopt`.
    TcEtfQopt(12) { delta: i32, clockid: i32, flags: u32 }

    /// `struct tc_sfb_qopt`.
    TcSfbQopt(36) {
        rehash_interval: u32,
        warmup_time: u32,
        max: u32,
        bin_size: u32,
        increment: u32,
        decrement: u32,
        limit: u32,
        penalty_rate: u32,
        penalty_burst: u32,
    }

    /// `struct tc_sizespec`: `TCA_STAB_BASE`.
    TcSizeSpec(24) {
        cell_log: u8,
        size_log: u8,
        cell_align: i16,
        overhead: i32,
        linklayer: u32,
        mpu: u32,
        mtu: u32,
        tsize: u32,
    }

    /// `struct tcf_ematch_tree_hdr`.
    TcfEmatchTreeHdr(4) { nmatches: u16, progid: u16 }

    /// `struct tcf_ematch_hdr`.
    TcfEmatchHdr(8) { matchid: u16, kind: u16, flags: u16, pad: u16 }
}

/// `TCM_IFINDEX_MAGIC_BLOCK`: [`TcMsg::parent`] is the index of a shared block.
pub const TCM_IFINDEX_MAGIC_BLOCK: i32 = -1;

impl TcMsg {
    /// Returns the priority of a filter.
    pub fn prio(&self) -> u16 {
        (self.info >> 16) as u16
    }

    /// Returns the Ethernet protocol of a filter, in host order.
    pub fn protocol(&self) -> u16 {
        u16::from_be(self.info as u16)
    }

    /// Returns the value of [`info`](Self::info) for a priority and a protocol (`TC_H_MAKE(prio <<
    /// 16, htons(protocol))`).
    pub fn make_info(prio: u16, protocol: u16) -> u32 {
        u32::from(prio) << 16 | u32::from(protocol.to_be())
    }
}
