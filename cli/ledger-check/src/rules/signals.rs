//! Signals: each is admitted once, waits in one place, and ends in exactly one way.

use crate::rule::{Rule, rule};

pub(super) const RULES: &[Rule] = &[
    SIGNAL_HAS_ONE_PLACE,
    SIGNAL_HAS_KEY,
    SIGNAL_ADMITTED_ONCE,
    CONSUMED_BY_ENDED_TURN,
    ENDED_TURN_DISPOSED_ITS_BATCH,
    BATCH_IS_FROZEN_BY_A_CLAIM,
    MAILBOX_ROW_MATCHES_ITS_SIGNAL,
    WAKING_SIGNAL_HAS_A_TURN,
];

rule! {
    /// Open in the mailbox, or disposed; never both, never neither.
    SIGNAL_HAS_ONE_PLACE, "signal-has-one-place", r#"
    select s.id::text as "object!",
           case when m.signal is null then 'is neither in the mailbox nor disposed: lost'
                else format('is in the mailbox and disposed as %s', s.disposition)
           end as "detail!"
      from control.signals s
      left join control.mailbox m on m.signal = s.id
     where (m.signal is null) = (s.disposition is null)"#
}

rule! {
    /// The durable key is what keeps a redelivery out, also a year later.
    SIGNAL_HAS_KEY, "signal-has-key", r#"
    select s.id::text as "object!",
           format('event %s of binding %s has no key row', s.event_key, s.binding) as "detail!"
      from control.signals s
     where not exists (
           select from control.signal_keys k
            where k.key_sha256 = sha256(convert_to(s.binding || '/' || s.event_key, 'UTF8'))
              and k.signal = s.id)"#
}

rule! {
    /// One event of one binding is one signal.
    SIGNAL_ADMITTED_ONCE, "signal-admitted-once", r#"
    select min(s.id::text) as "object!",
           format('event %s of binding %s was admitted %s times', s.event_key, s.binding, count(*))
             as "detail!"
      from control.signals s
     group by s.binding, s.event_key
    having count(*) > 1"#
}

rule! {
    /// What consumed a signal is a turn of its conversation that has ended.
    CONSUMED_BY_ENDED_TURN, "consumed-by-ended-turn", r#"
    select s.id::text as "object!",
           case when t.id is null then format('turn %s does not exist', s.disposition_turn)
                when t.conversation <> s.conversation
                  then format('turn %s belongs to another conversation', t.id)
                else format('turn %s is still %s', t.id, t.state)
           end as "detail!"
      from control.signals s
      left join control.turns t on t.id = s.disposition_turn
     where s.disposition = 'consumed'
       and (t.id is null or t.conversation <> s.conversation
            or t.state not in ('completed', 'silent', 'failed', 'cancelled'))"#
}

rule! {
    /// A turn that ended left nothing of its batch open.
    ENDED_TURN_DISPOSED_ITS_BATCH, "ended-turn-disposed-its-batch", r#"
    select m.signal::text as "object!",
           format('is still frozen to turn %s, which is %s', t.id, t.state) as "detail!"
      from control.mailbox m
      join control.turns t on t.id = m.turn
     where t.state in ('completed', 'silent', 'failed', 'cancelled')"#
}

rule! {
    /// Only a claim freezes a batch, and only of its own conversation.
    BATCH_IS_FROZEN_BY_A_CLAIM, "batch-is-frozen-by-a-claim", r#"
    select m.signal::text as "object!",
           case when t.conversation <> m.conversation
                  then format('is frozen to turn %s of another conversation', t.id)
                else format('is frozen to turn %s, which was never claimed', t.id)
           end as "detail!"
      from control.mailbox m
      join control.turns t on t.id = m.turn
     where t.conversation <> m.conversation or t.epoch = 0"#
}

rule! {
    /// The mailbox repeats what admission decided.
    MAILBOX_ROW_MATCHES_ITS_SIGNAL, "mailbox-row-matches-its-signal", r#"
    select m.signal::text as "object!",
           'its mailbox row has another conversation, order or wake than the signal' as "detail!"
      from control.mailbox m
      join control.signals s on s.id = m.signal
     where m.conversation <> s.conversation or m.wakes <> s.wakes or m.order_key <> s.order_key"#
}

rule! {
    /// A lost wake-up: somebody waits for an answer and no turn will give it.
    WAKING_SIGNAL_HAS_A_TURN, "waking-signal-has-a-turn", r#"
    select m.signal::text as "object!",
           format('is open and wakes, but conversation %s has no live turn', m.conversation)
             as "detail!"
      from control.mailbox m
     where m.wakes
       and not exists (
           select from control.turns t
            where t.conversation = m.conversation
              and t.state in ('queued', 'running', 'waiting', 'cancelling'))"#
}
