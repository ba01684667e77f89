//! Transcripts: what the ledger says happened stands in the gateway, once, under the right fence,
//! and in a form that providers accept.

use crate::rule::{Rule, rule};

pub(super) const RULES: &[Rule] = &[
    ANSWER_IS_STORED,
    ASKED_SIGNAL_IS_STORED_ONCE,
    CALL_HAS_ONE_OUTPUT,
    OUTPUT_HAS_ITS_CALL,
    ONE_GENERATING_RESPONSE,
    GENERATING_RESPONSE_HAS_AN_OWNER,
    RESPONSES_FOLLOW_THE_FENCE,
    ITEMS_FOLLOW_THE_FENCE,
    FENCE_WAS_GRANTED,
    ITEM_NUMBERS_ARE_UNIQUE,
];

rule! {
    /// The answer of a completed turn is a completed response of its generation and turn.
    ANSWER_IS_STORED, "answer-is-stored", r#"
    select t.id::text as "object!",
           case when t.response is null then 'is completed, but names no response'
                when r.id is null then format('response %s does not exist', t.response)
                when r.status <> 'completed' then format('response %s is %s', r.id, r.status)
                when r.conversation is distinct from g.gateway_conversation
                  then format('response %s belongs to another conversation', r.id)
                else format('response %s belongs to turn %s of the conversation', r.id, r.turn_seq)
           end as "detail!"
      from control.turns t
      left join control.generations g
        on g.conversation = t.conversation and g.generation = t.generation
      left join gateway.responses r on r.id = t.response
     where t.state = 'completed'
       and (r.id is null or r.status <> 'completed'
            or r.conversation is distinct from g.gateway_conversation
            or r.turn_seq is distinct from t.turn_seq)"#
}

rule! {
    /// A message that a completed turn answered is in the transcript exactly once.
    ASKED_SIGNAL_IS_STORED_ONCE, "asked-signal-is-stored-once", r#"
    select s.id::text as "object!",
           format('was answered by turn %s, but is stored as %s user items', t.id, count(i.id))
             as "detail!"
      from control.signals s
      join control.turns t on t.id = s.disposition_turn
      left join control.generations g
        on g.conversation = t.conversation and g.generation = t.generation
      left join gateway.items i
        on i.conversation = g.gateway_conversation and i.signal = s.id
       and i.type = 'message' and i.role = 'user'
     where s.disposition = 'consumed' and s.wakes and t.state = 'completed'
     group by s.id, t.id
    having count(i.id) <> 1"#
}

rule! {
    /// On the path of an answer every call has exactly one output.
    CALL_HAS_ONE_OUTPUT, "call-has-one-output", r#"
    select i.id as "object!",
           format('call %s of turn %s has %s outputs', i.call_id, t.id, o.n) as "detail!"
      from control.turns t
      join gateway.responses r on r.id = t.response
     cross join lateral gateway.segments(r.branch) s
      join gateway.items i
        on i.branch = s.branch and i.seq <= s.upto and i.type = 'function_call'
       and i.turn_seq = t.turn_seq
     cross join lateral (
           select count(*) as n
             from gateway.segments(r.branch) p
             join gateway.items x on x.branch = p.branch and x.seq <= p.upto
            where x.conversation = i.conversation and x.call_id = i.call_id
              and x.type = 'function_call_output') o
     where t.state = 'completed' and o.n <> 1"#
}

rule! {
    /// Nothing answers a call that was not made before it on the same path.
    OUTPUT_HAS_ITS_CALL, "output-has-its-call", r#"
    select i.id as "object!", format('answers call %s, which is not before it', i.call_id) as "detail!"
      from gateway.items i
     where i.type = 'function_call_output'
       and not exists (
           select from gateway.segments(i.branch) p
             join gateway.items x on x.branch = p.branch and x.seq <= p.upto
            where x.conversation = i.conversation and x.call_id = i.call_id
              and x.type = 'function_call' and x.seq < i.seq)"#
}

rule! {
    /// A conversation generates one response at a time.
    ONE_GENERATING_RESPONSE, "one-generating-response", r#"
    select r.conversation::text as "object!",
           format('generates %s responses at once: %s', count(*),
                  string_agg(r.id::text, ', ' order by r.created_at)) as "detail!"
      from gateway.responses r
     where r.status = 'in_progress' and r.turn_seq is not null
     group by r.conversation
    having count(*) > 1"#
}

rule! {
    /// A response whose owner stopped renewing is ended within seconds.
    GENERATING_RESPONSE_HAS_AN_OWNER, "generating-response-has-an-owner", r#"
    select r.id::text as "object!",
           format('is generating, but its owner %s renewed last at %s', r.owner,
                  coalesce(p.renewed_at::text, 'no time')) as "detail!"
      from gateway.responses r
      left join gateway.replicas p on p.replica = r.owner
     where r.status = 'in_progress'
       and coalesce(p.renewed_at, r.created_at) < now() - interval '60 seconds'"#
}

rule! {
    /// No response was made under a lower fence than the one before it; their times are taken
    /// under the conversation's lock.
    RESPONSES_FOLLOW_THE_FENCE, "responses-follow-the-fence", r#"
    select r.id::text as "object!",
           format('was made at fence %s.%s, after one at fence %s.%s',
                  r.turn_seq, r.epoch, r.seq_before, r.epoch_before) as "detail!"
      from (select r.id, r.turn_seq, r.epoch, lag(r.turn_seq) over w as seq_before,
                   lag(r.epoch) over w as epoch_before
              from gateway.responses r
             where r.turn_seq is not null
            window w as (partition by r.conversation order by r.created_at, r.id)) r
     where (r.turn_seq, r.epoch) < (r.seq_before, r.epoch_before)"#
}

rule! {
    /// No item was appended under a lower fence than the one before it.
    ITEMS_FOLLOW_THE_FENCE, "items-follow-the-fence", r#"
    select i.id as "object!",
           format('was appended at fence %s.%s, after one at fence %s.%s',
                  i.turn_seq, i.epoch, i.seq_before, i.epoch_before) as "detail!"
      from (select i.id, i.turn_seq, i.epoch, lag(i.turn_seq) over w as seq_before,
                   lag(i.epoch) over w as epoch_before
              from gateway.items i
             where i.turn_seq is not null
            window w as (partition by i.conversation order by i.seq)) i
     where (i.turn_seq, i.epoch) < (i.seq_before, i.epoch_before)"#
}

rule! {
    /// The gateway never saw a fence that the ledger did not hand out.
    FENCE_WAS_GRANTED, "fence-was-granted", r#"
    select g.gateway_conversation::text as "object!",
           format('stands at fence %s.%s, above the ledger''s %s.%s',
                  w.turn_seq, w.epoch, c.turn_seq, c.epoch) as "detail!"
      from control.generations g
      join control.conversations c on c.id = g.conversation
      join gateway.conversations w on w.id = g.gateway_conversation
     where w.turn_seq > c.turn_seq or w.epoch > c.epoch"#
}

rule! {
    /// One number, one item; and no item past the conversation's head.
    ITEM_NUMBERS_ARE_UNIQUE, "item-numbers-are-unique", r#"
    select i.conversation::text as "object!",
           case when count(*) > 1 then format('has %s items numbered %s', count(*), i.seq)
                else format('has item %s past its head %s', i.seq, c.last_seq)
           end as "detail!"
      from gateway.items i
      join gateway.conversations c on c.id = i.conversation
     group by i.conversation, i.seq, c.last_seq
    having count(*) > 1 or i.seq > c.last_seq"#
}
