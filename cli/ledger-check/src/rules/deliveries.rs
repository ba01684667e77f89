//! Deliveries: an answer goes out whole and once, in the order of its conversation, and nobody is
//! left without a word.

use crate::rule::{Rule, rule};

pub(super) const RULES: &[Rule] = &[
    COMPLETED_TURN_REPLIED,
    REPLY_BELONGS_TO_A_COMPLETED_TURN,
    REPLY_IS_PLANNED_ONCE,
    FAILED_TURN_GAVE_NOTICE,
    SENT_IN_LANE_ORDER,
    DELIVERY_WAITS_FOR_THE_ONE_BEFORE,
    DELIVERY_SETTLES_IN_TIME,
    MESSAGE_SENT_ONCE,
];

rule! {
    /// The chunks of a reply are numbered 0 to n - 1, each planned exactly once.
    COMPLETED_TURN_REPLIED, "completed-turn-replied", r#"
    select t.id::text as "object!",
           case when d.n is null then 'is completed, but no reply was planned'
                else format('has %s reply chunks numbered %s to %s where %s were planned',
                            d.n, d.lo, d.hi, d.chunks)
           end as "detail!"
      from control.turns t
      left join (select turn, count(*) as n, count(distinct ordinal) as ordinals,
                        min(ordinal) as lo, max(ordinal) as hi,
                        min(chunks) as chunks, max(chunks) as most
                   from control.deliveries where origin = 'reply' group by turn) d on d.turn = t.id
     where t.state = 'completed'
       and (d.n is null or d.n <> d.ordinals or d.n <> d.chunks or d.chunks <> d.most
            or d.lo <> 0 or d.hi <> d.n - 1)"#
}

rule! {
    /// Only a turn that ended with an answer replies, in its own conversation.
    REPLY_BELONGS_TO_A_COMPLETED_TURN, "reply-belongs-to-a-completed-turn", r#"
    select d.id::text as "object!",
           case when t.id is null then 'is a reply of no turn'
                when t.conversation <> d.conversation
                  then format('is a reply of turn %s in another conversation', t.id)
                else format('is a reply of turn %s, which is %s', t.id, t.state)
           end as "detail!"
      from control.deliveries d
      left join control.turns t on t.id = d.turn
     where d.origin = 'reply'
       and (t.id is null or t.conversation <> d.conversation or t.state <> 'completed')"#
}

rule! {
    /// The reply of a turn was planned by the claim that ended it; a second one, or one of another
    /// epoch, was written past the fence.
    REPLY_IS_PLANNED_ONCE, "reply-is-planned-once", r#"
    select t.id::text as "object!",
           format('ended at epoch %s; its reply was planned at epochs %s', t.epoch,
                  string_agg(distinct d.epoch::text, ', ')) as "detail!"
      from control.turns t
      join control.deliveries d on d.turn = t.id
     where d.origin = 'reply' and d.state <> 'skipped'
     group by t.id, t.epoch
    having count(distinct d.epoch) > 1 or max(d.epoch) <> t.epoch"#
}

rule! {
    /// Who asked is told that there will be no answer.
    FAILED_TURN_GAVE_NOTICE, "failed-turn-gave-notice", r#"
    select t.id::text as "object!",
           format('failed (%s) and nobody was told', t.end_reason) as "detail!"
      from control.turns t
     where t.state = 'failed'
       and not exists (select from control.deliveries d
                        where d.turn = t.id and d.origin = 'notice')"#
}

rule! {
    /// What a reader sees stands in the order of the lane.
    SENT_IN_LANE_ORDER, "sent-in-lane-order", r#"
    select d.id::text as "object!",
           format('was sent at %s, before an earlier one of its conversation at %s',
                  d.settled_at, d.before) as "detail!"
      from (select id, settled_at,
                   max(settled_at) over (partition by conversation order by lane_seq
                                         rows between unbounded preceding and 1 preceding) as before
              from control.deliveries where state = 'sent') d
     where d.settled_at < d.before"#
}

rule! {
    /// The next is released when the one before has settled.
    DELIVERY_WAITS_FOR_THE_ONE_BEFORE, "delivery-waits-for-the-one-before", r#"
    select d.id::text as "object!",
           format('is %s while an earlier one of its conversation is open', d.state) as "detail!"
      from (select id, state,
                   count(*) filter (where state in ('planned', 'begun'))
                     over (partition by conversation order by lane_seq
                           rows between unbounded preceding and 1 preceding) as open_before
              from control.deliveries) d
     where d.open_before > 0 and d.state in ('begun', 'sent')"#
}

rule! {
    /// An attempt ends with a receipt, or as unknown.
    DELIVERY_SETTLES_IN_TIME, "delivery-settles-in-time", r#"
    select d.id::text as "object!",
           case when d.state = 'begun' then format('was begun at %s and never settled', d.begun_at)
                else format('was not sent, and is too old to send since %s', d.not_after)
           end as "detail!"
      from control.deliveries d
     where (d.state = 'begun' and d.begun_at < now() - interval '10 minutes')
        or (d.state = 'planned' and d.not_after < now() - interval '10 minutes')"#
}

rule! {
    /// One delivery is one message at the provider.
    MESSAGE_SENT_ONCE, "message-sent-once", r#"
    select min(d.id::text) as "object!",
           format('message %s of binding %s was reported for %s deliveries',
                  d.provider_message_id, d.binding, count(*)) as "detail!"
      from control.deliveries d
     where d.state = 'sent'
     group by d.binding, d.channel, d.provider_message_id
    having count(*) > 1"#
}
