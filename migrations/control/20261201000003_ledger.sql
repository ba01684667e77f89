-- The turn ledger: turns, leases, mailbox, steers, deliveries.

create table control.turns (
  id              uuid primary key,
  conversation    uuid not null references control.conversations,
  generation      integer not null,
  turn_seq        bigint not null,
  state           text not null default 'queued',
  kind            text not null,
  pool            text not null,
  dispatch_no     bigint not null default 1,
  attempts        integer not null default 0,
  crashes         integer not null default 0,
  -- of the newest claim; 0 before the first
  epoch           bigint not null default 0,
  worker          uuid,
  claimed_dispatch bigint,
  revision        bigint references control.revisions,
  revision_reason text,
  -- the signal a reply refers to, fixed at the claim
  reply_signal    uuid references control.signals,
  traceparent     text,
  created_at      timestamptz not null default now(),
  not_before      timestamptz not null default now(),
  queued_at       timestamptz not null default now(),
  claimed_at      timestamptz,
  ended_at        timestamptz,
  end_reason      text,
  end_detail      text,
  response        uuid,
  constraint turns_seq unique (conversation, turn_seq),
  constraint turns_state check (state in ('queued', 'running', 'waiting', 'cancelling',
                                          'completed', 'silent', 'failed', 'cancelled')),
  constraint turns_kind check (kind in ('message', 'wakeup', 'cron', 'command',
                                        'approval_resume', 'subagent')),
  constraint turns_end check (
    (state in ('completed', 'silent', 'failed', 'cancelled')) = (ended_at is not null)),
  constraint turns_running_has_owner check (
    state not in ('running', 'cancelling') or (worker is not null and epoch > 0 and revision is not null)),
  constraint turns_failed_has_reason check (state <> 'failed' or end_reason is not null),
  constraint turns_counts check (dispatch_no > 0 and attempts >= 0 and crashes >= 0)
);
create unique index turns_one_live on control.turns (conversation)
  where state in ('queued', 'running', 'waiting', 'cancelling');
create index turns_due on control.turns (not_before) where state = 'queued';
create index turns_of_worker on control.turns (worker) where state in ('running', 'cancelling');
create index turns_newest on control.turns (created_at desc);

create function control.turn_transition() returns trigger language plpgsql as $$
begin
  if old.state in ('completed', 'silent', 'failed', 'cancelled')
     and (new.state, new.epoch, new.ended_at) is distinct from (old.state, old.epoch, old.ended_at) then
    raise exception 'a turn ends once'
      using errcode = 'check_violation', constraint = 'turns_end_once';
  end if;
  if new.state <> old.state and (old.state, new.state) not in (
       ('queued', 'running'), ('queued', 'failed'), ('queued', 'cancelled'),
       ('running', 'queued'), ('running', 'waiting'), ('running', 'cancelling'),
       ('running', 'completed'), ('running', 'silent'), ('running', 'failed'),
       ('waiting', 'queued'), ('waiting', 'cancelled'), ('waiting', 'failed'),
       ('cancelling', 'cancelled')) then
    raise exception 'a turn cannot go from % to %', old.state, new.state
      using errcode = 'check_violation', constraint = 'turns_transition';
  end if;
  if new.epoch < old.epoch or new.dispatch_no < old.dispatch_no then
    raise exception 'a turn only moves forward'
      using errcode = 'check_violation', constraint = 'turns_only_forward';
  end if;
  return new;
end $$;
create trigger turns_transition before update on control.turns
  for each row execute function control.turn_transition();

-- One lease per worker incarnation; times are PostgreSQL's.
create table control.worker_leases (
  worker     uuid primary key,
  pool       text not null,
  draining   boolean not null default false,
  started_at timestamptz not null default now(),
  renewed_at timestamptz not null default now()
);

-- A conversation's signals that no turn has consumed yet.
create table control.mailbox (
  signal       uuid primary key references control.signals,
  conversation uuid not null references control.conversations,
  seq          bigint not null,
  wakes        boolean not null,
  order_key    text not null,
  bytes        integer not null,
  -- set when a claim freezes it into a batch
  turn         uuid references control.turns,
  batch_no     integer,
  constraint mailbox_seq unique (conversation, seq),
  constraint mailbox_batch check ((turn is null) = (batch_no is null)),
  constraint mailbox_batch_no unique (turn, batch_no)
);
create index mailbox_open on control.mailbox (conversation, order_key, seq) where turn is null;

-- Signals offered to a running turn, in order; rows are the truth, messages only nudge.
create table control.turn_steers (
  turn     uuid not null references control.turns,
  seq      bigint not null,
  signal   uuid not null references control.signals,
  taken_at timestamptz,
  constraint turn_steers_pk primary key (turn, seq),
  constraint turn_steers_signal unique (signal)
);

create table control.deliveries (
  id                  uuid primary key,
  conversation        uuid not null references control.conversations,
  -- the order of the lane
  lane_seq            bigint not null,
  -- reply, notice
  origin              text not null,
  -- what it is for, once: turn and ordinal, signal and notice kind
  origin_key          text not null,
  turn                uuid references control.turns,
  -- the epoch that planned it
  epoch               bigint not null,
  ordinal             integer not null,
  chunks              integer not null,
  binding             text not null,
  adapter             text not null,
  channel             uuid not null references control.channels,
  reply_to            text not null,
  reply_event_key     text not null,
  body                text not null,
  state               text not null default 'planned',
  adapter_incarnation text,
  provider_message_id text,
  detail              text,
  traceparent         text,
  planned_at          timestamptz not null default now(),
  not_after           timestamptz not null,
  begun_at            timestamptz,
  settled_at          timestamptz,
  constraint deliveries_lane unique (conversation, lane_seq),
  constraint deliveries_origin_once unique (origin_key),
  constraint deliveries_origin check (origin in ('reply', 'notice')),
  constraint deliveries_state check (state in ('planned', 'begun', 'sent', 'failed', 'expired',
                                               'unknown', 'skipped')),
  constraint deliveries_settled check (
    (state in ('planned', 'begun')) = (settled_at is null)),
  constraint deliveries_sent_has_id check (state <> 'sent' or provider_message_id is not null),
  constraint deliveries_ordinal check (ordinal >= 0 and chunks > ordinal)
);
create index deliveries_open on control.deliveries (conversation, lane_seq)
  where state in ('planned', 'begun');
create index deliveries_turn on control.deliveries (turn);

create function control.delivery_settles_once() returns trigger language plpgsql as $$
begin
  if old.state not in ('planned', 'begun') and new.state <> old.state then
    raise exception 'a delivery settles once'
      using errcode = 'check_violation', constraint = 'deliveries_settle_once';
  end if;
  if old.state = 'begun' and new.state = 'planned' then
    raise exception 'a begun delivery is never planned again'
      using errcode = 'check_violation', constraint = 'deliveries_begin_once';
  end if;
  return new;
end $$;
create trigger deliveries_settle_once before update on control.deliveries
  for each row execute function control.delivery_settles_once();

-- What the broker serves: the heavy part by agent and effective revision, the light part by
-- conversation, in one read for a cold conversation.
create view control.agent_conversation_context as
select
  c.id as conversation,
  c.key as conversation_key,
  g.generation,
  g.started_at,
  g.origin_adapter,
  g.origin_kind,
  g.origin_label,
  x.*
from control.conversations c
join control.generations g on g.conversation = c.id and g.generation = c.generation
join control.agent_context x on x.agent_slug = c.agent;
