-- Transcripts: items appended once, responses that point at ranges of them.

create table gateway.conversations (
  id            uuid primary key,
  -- an agent's conversation is fenced: unfenced writers are refused
  fenced        boolean not null,
  agent         text,
  turn_seq      bigint not null default 0,
  epoch         bigint not null default 0,
  -- the newest branch's head: the highest item sequence number, over all branches
  last_seq      bigint not null default 0,
  created_at    timestamptz not null default now(),
  constraint gateway_conversations_fence check (turn_seq >= 0 and epoch >= 0)
);

create function gateway.fence_only_grows() returns trigger language plpgsql as $$
begin
  if (new.turn_seq, new.epoch) < (old.turn_seq, old.epoch) or new.last_seq < old.last_seq then
    raise exception 'a conversation only moves forward'
      using errcode = 'check_violation', constraint = 'gateway_conversations_only_forward';
  end if;
  return new;
end $$;
create trigger gateway_conversations_only_forward before update on gateway.conversations
  for each row execute function gateway.fence_only_grows();

-- A branch is a list of segments: its own items, after its parent's up to a sequence number.
create table gateway.branches (
  id           uuid primary key,
  conversation uuid not null references gateway.conversations,
  parent       uuid references gateway.branches,
  parent_upto  bigint,
  -- the highest item sequence number of the branch, or where it begins
  head         bigint not null default 0,
  constraint branches_parent check ((parent is null) = (parent_upto is null))
);
create unique index branches_one_root on gateway.branches (conversation) where parent is null;

create table gateway.blobs (
  sha256  bytea primary key,
  content text not null,
  constraint gateway_blobs_are_named_by_content check (sha256 = sha256(convert_to(content, 'UTF8')))
);

create table gateway.responses (
  id                uuid primary key,
  conversation      uuid not null references gateway.conversations,
  -- where its output lies: its own branch when it did not complete, so that it is off the path
  branch            uuid not null references gateway.branches,
  previous          uuid references gateway.responses,
  status            text not null,
  -- the fence it was written under and its place in the turn; null for unfenced clients
  turn_seq          bigint,
  epoch             bigint,
  request_no        integer,
  -- items by sequence number: input in [input_from, output_from), output in [output_from, output_upto)
  input_from        bigint not null,
  output_from       bigint not null,
  output_upto       bigint,
  model             text not null,
  instructions      bytea references gateway.blobs,
  base_instructions bytea references gateway.blobs,
  -- request parameters as sent by the client, without input and instructions
  parameters        jsonb not null,
  manifest          jsonb,
  baseline          jsonb,
  usage             jsonb,
  error             jsonb,
  upstream_sha256   bytea,
  -- the gateway replica that generates it
  owner             uuid,
  created_at        timestamptz not null default now(),
  first_content_at  timestamptz,
  ended_at          timestamptz,
  constraint responses_status check (status in ('in_progress', 'completed', 'incomplete', 'failed')),
  constraint responses_end check ((status = 'in_progress') = (ended_at is null)),
  constraint responses_generating_has_owner check (status <> 'in_progress' or owner is not null),
  constraint responses_fence check (
    (turn_seq is null) = (epoch is null) and (turn_seq is null) = (request_no is null)),
  constraint responses_request_once unique (conversation, turn_seq, epoch, request_no)
);
create unique index responses_one_generating on gateway.responses (conversation)
  where status = 'in_progress' and turn_seq is not null;
-- Forks of an unfenced conversation generate side by side; what shares a branch never does.
create unique index responses_one_generating_on_branch on gateway.responses (branch)
  where status = 'in_progress';
create index responses_turn on gateway.responses (conversation, turn_seq, created_at);
create index responses_of_owner on gateway.responses (owner) where status = 'in_progress';

create table gateway.items (
  branch       uuid not null references gateway.branches,
  seq          bigint not null,
  conversation uuid not null references gateway.conversations,
  id           text not null,
  -- message, function_call, function_call_output, reasoning, …
  type         text not null,
  role         text,
  call_id      text,
  -- the stored kind of each content part; classification never matches text
  kinds        text[] not null default '{}',
  signal       uuid,
  response     uuid references gateway.responses,
  turn_seq     bigint,
  epoch        bigint,
  -- exactly as received or produced
  body         text not null,
  created_at   timestamptz not null default now(),
  constraint items_pk primary key (branch, seq),
  constraint items_id unique (id),
  constraint items_seq_once unique (conversation, seq),
  constraint items_signal_once unique (conversation, signal),
  constraint items_calls_have_ids check (
    type not in ('function_call', 'function_call_output') or call_id is not null)
);
create index items_call on gateway.items (conversation, call_id) where call_id is not null;
create index items_response on gateway.items (response);

-- The path of a branch: its segments, newest first.
create function gateway.segments(of_branch uuid)
returns table (branch uuid, upto bigint) language sql stable as $$
  with recursive path as (
    select b.id, b.parent, b.parent_upto, b.head as upto from gateway.branches b where b.id = of_branch
    union all
    select p.id, p.parent, p.parent_upto, least(path.parent_upto, p.head)
      from path join gateway.branches p on p.id = path.parent
  )
  select id, upto from path
$$;

create function gateway.item_is_sound() returns trigger language plpgsql as $$
declare
  fence record;
begin
  -- Under the conversation's lock, so that what is read here stays true until commit.
  select turn_seq, epoch, fenced into fence from gateway.conversations
   where id = new.conversation for no key update;
  if fence.fenced and (new.turn_seq is null
      or (new.turn_seq, new.epoch) < (fence.turn_seq, fence.epoch)) then
    raise exception 'the fence is higher'
      using errcode = 'check_violation', constraint = 'items_fence';
  end if;
  if new.type in ('function_call', 'function_call_output') then
    if new.type = 'function_call_output' and not exists (
        select from gateway.items i join gateway.segments(new.branch) s on s.branch = i.branch
         where i.conversation = new.conversation and i.call_id = new.call_id
           and i.type = 'function_call' and (i.branch = new.branch or i.seq <= s.upto)) then
      raise exception 'an output needs its call'
        using errcode = 'check_violation', constraint = 'items_output_has_call';
    end if;
    if exists (
        select from gateway.items i join gateway.segments(new.branch) s on s.branch = i.branch
         where i.conversation = new.conversation and i.call_id = new.call_id
           and i.type = new.type and (i.branch = new.branch or i.seq <= s.upto)) then
      raise exception 'a call and its output are stored once'
        using errcode = 'unique_violation', constraint = 'items_call_once';
    end if;
  end if;
  return new;
end $$;
create trigger items_are_sound before insert on gateway.items
  for each row execute function gateway.item_is_sound();

create function gateway.items_stay() returns trigger language plpgsql as $$
begin
  raise exception 'a transcript is only appended to'
    using errcode = 'check_violation', constraint = 'items_are_appended';
end $$;
create trigger items_stay before update on gateway.items
  for each row execute function gateway.items_stay();

create function gateway.response_is_sound() returns trigger language plpgsql as $$
declare
  fence record;
begin
  select turn_seq, epoch, fenced into fence from gateway.conversations
   where id = new.conversation for no key update;
  if tg_op = 'INSERT' and fence.fenced and (new.turn_seq is null
      or (new.turn_seq, new.epoch) < (fence.turn_seq, fence.epoch)) then
    raise exception 'the fence is higher'
      using errcode = 'check_violation', constraint = 'responses_below_fence';
  end if;
  if tg_op = 'UPDATE' and old.status <> 'in_progress' and new.status <> old.status then
    raise exception 'a response ends once'
      using errcode = 'check_violation', constraint = 'responses_end_once';
  end if;
  return new;
end $$;
create trigger responses_are_sound before insert or update on gateway.responses
  for each row execute function gateway.response_is_sound();

-- One row per gateway process; a response whose owner stopped renewing is ended as incomplete.
create table gateway.replicas (
  replica    uuid primary key,
  started_at timestamptz not null default now(),
  renewed_at timestamptz not null default now()
);

create function gateway.replica_lives(of_replica uuid) returns boolean language sql stable as $$
  select exists (
    select from gateway.replicas
     where replica = of_replica and renewed_at > now() - interval '3 seconds')
$$;

revoke all on schema gateway from public;
grant usage on schema gateway to turnwright_gateway, turnwright_auditor;
grant select, insert, update on all tables in schema gateway to turnwright_gateway;
revoke update on gateway.items, gateway.blobs from turnwright_gateway;
grant execute on all functions in schema gateway to turnwright_gateway, turnwright_auditor;
grant select on all tables in schema gateway to turnwright_auditor;
grant delete on gateway.replicas to turnwright_gateway;
