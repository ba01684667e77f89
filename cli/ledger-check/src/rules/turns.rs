//! Turns: one live turn per conversation, no gap in their order, and an owner or a deadline for
//! whatever has not ended.

use crate::rule::{Rule, rule};

pub(super) const RULES: &[Rule] = &[
    ONE_LIVE_TURN,
    TURN_SEQ_IS_GAPLESS,
    EPOCH_ONLY_GROWS,
    TURN_HAS_ITS_GENERATION,
    RUNNING_TURN_HAS_A_LEASE,
    QUEUED_TURN_IS_DISPATCHED,
    PINNED_REVISION_EXISTED,
];

rule! {
    /// The lane runs one turn at a time.
    ONE_LIVE_TURN, "one-live-turn", r#"
    select t.conversation::text as "object!",
           format('has %s live turns: %s', count(*),
                  string_agg(format('%s %s', t.id, t.state), ', ' order by t.turn_seq))
             as "detail!"
      from control.turns t
     where t.state in ('queued', 'running', 'waiting', 'cancelling')
     group by t.conversation
    having count(*) > 1"#
}

rule! {
    /// Turns of a conversation are numbered 1 to n, and n stands in its fence.
    TURN_SEQ_IS_GAPLESS, "turn-seq-is-gapless", r#"
    select c.id::text as "object!",
           format('counts %s turns; %s are stored, numbered %s to %s',
                  c.turn_seq, coalesce(t.n, 0), coalesce(t.lo, 0), coalesce(t.hi, 0)) as "detail!"
      from control.conversations c
      left join (select conversation, count(*) as n, min(turn_seq) as lo, max(turn_seq) as hi
                   from control.turns group by conversation) t on t.conversation = c.id
     where c.turn_seq <> coalesce(t.hi, 0)
        or coalesce(t.n, 0) <> coalesce(t.hi, 0)
        or coalesce(t.lo, 1) <> 1"#
}

rule! {
    /// Each claim raises the conversation's epoch, so a later turn was claimed at a higher one.
    EPOCH_ONLY_GROWS, "epoch-only-grows", r#"
    select t.id::text as "object!",
           case when t.epoch > t.highest
                  then format('has epoch %s, above its conversation''s %s', t.epoch, t.highest)
                else format('has epoch %s, but an earlier turn has %s', t.epoch, t.earlier)
           end as "detail!"
      from (select t.id, t.epoch, c.epoch as highest,
                   max(t.epoch) over (partition by t.conversation order by t.turn_seq
                                      rows between unbounded preceding and 1 preceding) as earlier
              from control.turns t
              join control.conversations c on c.id = t.conversation) t
     where t.epoch > t.highest or (t.epoch > 0 and t.epoch <= t.earlier)"#
}

rule! {
    /// A turn writes into the transcript of its generation.
    TURN_HAS_ITS_GENERATION, "turn-has-its-generation", r#"
    select t.id::text as "object!",
           format('generation %s of conversation %s is not recorded', t.generation, t.conversation)
             as "detail!"
      from control.turns t
     where not exists (
           select from control.generations g
            where g.conversation = t.conversation and g.generation = t.generation)"#
}

rule! {
    /// A lease that is not renewed ends within seconds; a minute means that nobody reaps.
    RUNNING_TURN_HAS_A_LEASE, "running-turn-has-a-lease", r#"
    select t.id::text as "object!",
           case when w.worker is null then format('is %s, but its worker %s has no lease', t.state, t.worker)
                else format('is %s, but its worker %s renewed last at %s', t.state, t.worker, w.renewed_at)
           end as "detail!"
      from control.turns t
      left join control.worker_leases w on w.worker = t.worker
     where t.state in ('running', 'cancelling')
       and coalesce(w.renewed_at, t.claimed_at, t.queued_at) < now() - interval '60 seconds'"#
}

rule! {
    /// A turn that is due is given out again and again until a worker claims it.
    QUEUED_TURN_IS_DISPATCHED, "queued-turn-is-dispatched", r#"
    select t.id::text as "object!",
           format('is queued since %s and was due at %s', t.queued_at, t.not_before) as "detail!"
      from control.turns t
     where t.state = 'queued'
       and greatest(t.not_before, t.queued_at) < now() - interval '10 minutes'"#
}

rule! {
    /// What a turn used is one number, and that number was written.
    PINNED_REVISION_EXISTED, "pinned-revision-existed", r#"
    select t.id::text as "object!",
           case when t.revision is null then 'ended with an answer, but has no revision'
                else format('is pinned to revision %s, which was not written', t.revision)
           end as "detail!"
      from control.turns t
      left join control.revisions r on r.revision = t.revision
     where (t.revision is not null and r.revision is null)
        or (t.revision is null and t.state in ('completed', 'silent'))"#
}
