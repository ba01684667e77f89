//! The figures by name, with their units and the targets of the design. No figure is measured here.

/// One figure of a suite.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its name, without the suite's.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// What is to be reached, if anything is.
    pub target: Option<Target>,
}

/// What is to be reached.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// This or less.
    AtMost(f64),
    /// This or more.
    AtLeast(f64),
}

const fn figure(name: &'static str, unit: &'static str, target: Option<Target>) -> Figure {
    Figure { name, unit, target }
}

/// One durable insert of 1 KiB, one at a time, median.
pub const COMMIT_FLOOR: Figure = figure("commit_floor_ms", "ms", None);
/// The same inserts on 16 connections at once.
pub const INSERT_RATE: Figure = figure("insert_rate_c16", "inserts/s", None);
/// From the publish call to the request at the provider, first message of a conversation.
pub const COLD: Figure = figure("signal_to_first_byte_cold_p50", "ms", None);
/// The same less what four commits cost here.
pub const COLD_LESS: Figure =
    figure("signal_to_first_byte_cold_less_4_commits_p50", "ms", Some(Target::AtMost(10.0)));
/// From the publish call to the request at the provider, later message of a conversation.
pub const WARM: Figure = figure("signal_to_first_byte_warm_p50", "ms", None);
/// The same less what four commits cost here.
pub const WARM_LESS: Figure =
    figure("signal_to_first_byte_warm_less_4_commits_p50", "ms", Some(Target::AtMost(6.0)));
/// From the publish call to the reply at the console.
pub const DELIVERY: Figure = figure("signal_to_delivery_p50", "ms", None);
/// The same less what seven commits cost here.
pub const DELIVERY_LESS: Figure =
    figure("signal_to_delivery_less_7_commits_p50", "ms", Some(Target::AtMost(20.0)));
/// Turns from signal to reply, in many conversations at once.
pub const PER_SECOND: Figure =
    figure("per_second_durable", "turns/s", Some(Target::AtLeast(200.0)));
/// From the kill of a worker in the middle of a turn to that turn's reply.
pub const TAKEOVER: Figure = figure("takeover_after_kill_p99", "s", Some(Target::AtMost(5.0)));
/// Commits on the way of a turn.
pub const COMMITS: Figure = figure("commits_per_turn", "count", Some(Target::AtMost(7.0)));
/// Those of them that wrote or locked something.
pub const WRITTEN_COMMITS: Figure = figure("written_commits_per_turn", "count", None);
/// Memory of our processes at rest.
pub const IDLE_RSS: Figure = figure("idle_rss_all_processes", "MB", Some(Target::AtMost(100.0)));
/// From the start on an empty data folder to the first reply.
pub const FIRST_REPLY: Figure = figure("dev_to_first_reply", "s", Some(Target::AtMost(5.0)));

/// What the suite `turns` measures, in the order of the table.
pub const TURNS: &[Figure] = &[
    COMMIT_FLOOR,
    INSERT_RATE,
    COLD,
    COLD_LESS,
    WARM,
    WARM_LESS,
    DELIVERY,
    DELIVERY_LESS,
    PER_SECOND,
    TAKEOVER,
    COMMITS,
    WRITTEN_COMMITS,
    IDLE_RSS,
    FIRST_REPLY,
];

/// What a suite `context` measures.
pub const CONTEXT: &[&str] = &[
    "broker_rps_over_health_rps",
    "broker_not_modified_rps_over_health_rps",
    "assemble_p50",
    "rss_10k_agents_1m_conversations",
];
/// What a suite `gateway` measures.
pub const GATEWAY: &[&str] = &[
    "added_latency_p50_c1",
    "added_latency_p99_c1",
    "rps_c16_stateless",
    "rps_c16_durable",
    "rps_c16_durable_over_insert_rate",
    "depth_1000_over_depth_10",
    "rss_after_100k_responses",
    "first_byte_added_p50",
];
/// What a suite `loop` measures.
pub const LOOP: &[&str] =
    &["overhead_per_iteration_p50", "rss_per_running_turn", "sandbox_over_plain_spawn"];
