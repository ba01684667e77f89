-- Channels, principals and conversations; signals and their mailbox.

create table control.principals (
  id           uuid primary key,
  binding      text not null,
  external_id  text not null,
  kind         text not null,
  display_name text not null,
  updated_at   timestamptz not null default now(),
  constraint principals_kind check (kind in ('person', 'service', 'agent')),
  constraint principals_external unique (binding, external_id)
);

create table control.channels (
  id          uuid primary key,
  binding     text not null,
  external_id text not null,
  thread_id   text not null,
  kind        text not null,
  label       text not null,
  updated_at  timestamptz not null default now(),
  constraint channels_kind check (kind in ('dm', 'group', 'thread', 'webhook')),
  constraint channels_external unique (binding, external_id, thread_id)
);

-- The lane: its row is locked first by every ledger transaction.
create table control.conversations (
  id          uuid primary key,
  agent       text not null,
  binding     text not null,
  channel     uuid not null references control.channels,
  key         text not null,
  generation  integer not null default 1,
  -- the fence: both only grow
  turn_seq    bigint not null default 0,
  epoch       bigint not null default 0,
  mailbox_seq bigint not null default 0,
  lane_seq    bigint not null default 0,
  created_at  timestamptz not null default now(),
  -- a binding that moves to another agent begins other conversations in the same places
  constraint conversations_key unique (agent, key),
  constraint conversations_channel unique (agent, binding, channel),
  constraint conversations_generation check (generation > 0)
);

-- What is frozen when a generation begins.
create table control.generations (
  conversation         uuid not null references control.conversations,
  generation           integer not null,
  gateway_conversation uuid not null,
  started_at           timestamptz not null default now(),
  origin_adapter       text not null,
  origin_kind          text not null,
  origin_label         text not null,
  constraint generations_pk primary key (conversation, generation),
  constraint generations_gateway unique (gateway_conversation)
);

create function control.fence_only_grows() returns trigger language plpgsql as $$
begin
  if (new.turn_seq, new.epoch) < (old.turn_seq, old.epoch) or new.epoch < old.epoch
     or new.generation < old.generation or new.mailbox_seq < old.mailbox_seq
     or new.lane_seq < old.lane_seq then
    raise exception 'a conversation only moves forward'
      using errcode = 'check_violation', constraint = 'conversations_only_forward';
  end if;
  return new;
end $$;
create trigger conversations_only_forward before update on control.conversations
  for each row execute function control.fence_only_grows();

-- De-duplication for ever: retention and erasure leave this table alone.
create table control.signal_keys (
  key_sha256 bytea primary key,
  signal     uuid not null,
  constraint signal_keys_are_sha256 check (octet_length(key_sha256) = 32)
);

create table control.signals (
  id           uuid primary key,
  conversation uuid not null references control.conversations,
  binding      text not null,
  event_key    text not null,
  order_key    text not null,
  message_id   text not null,
  reply_to     text not null,
  sender       uuid not null references control.principals,
  sender_name  text not null,
  addressed    text not null,
  wakes        boolean not null,
  body         text not null,
  traceparent  text,
  occurred_at  timestamptz not null,
  published_at timestamptz not null,
  admitted_at  timestamptz not null default now(),
  late         boolean not null default false,
  -- the disposition: exactly one, at the end
  disposition        text,
  disposition_turn   uuid,
  disposition_reason text,
  disposed_at        timestamptz,
  constraint signals_addressed check (addressed in ('dm', 'mention', 'reply', 'none')),
  constraint signals_disposition
    check (disposition in ('consumed', 'recorded', 'rejected', 'expired')),
  constraint signals_disposition_is_whole check (
    (disposition is null) = (disposed_at is null)
    and (disposition is not distinct from 'consumed') = (disposition_turn is not null)
    and (disposition is not distinct from 'rejected') = (disposition_reason is not null))
);
create index signals_conversation on control.signals (conversation, order_key);
create index signals_turn on control.signals (disposition_turn) where disposition_turn is not null;

create function control.disposition_is_final() returns trigger language plpgsql as $$
begin
  if old.disposition is not null and new.disposition is distinct from old.disposition then
    raise exception 'a signal has one disposition'
      using errcode = 'check_violation', constraint = 'signals_one_disposition';
  end if;
  return new;
end $$;
create trigger signals_one_disposition before update on control.signals
  for each row execute function control.disposition_is_final();

create table control.signal_quarantine (
  id         bigint generated always as identity primary key,
  subject    text not null,
  stream_seq bigint not null,
  reason     text not null,
  payload    bytea not null,
  -- a stream that was lost begins its numbers anew
  sha256     bytea generated always as (sha256(payload)) stored,
  created_at timestamptz not null default now(),
  constraint signal_quarantine_once unique (subject, stream_seq, sha256)
);
