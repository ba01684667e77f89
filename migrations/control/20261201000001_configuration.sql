-- Configuration: one revision counter, rows valid from a revision to before another.

create table control.revision_counter (
  singleton boolean primary key default true,
  revision  bigint not null,
  constraint revision_counter_one_row check (singleton),
  constraint revision_counter_grows check (revision >= 0)
);
insert into control.revision_counter (revision) values (0);

create table control.revisions (
  revision   bigint primary key,
  created_at timestamptz not null default now(),
  author     text not null,
  reason     text not null,
  changes    jsonb not null,
  -- SHA-256 over the revision before it and what this one wrote
  chain      bytea not null,
  constraint revisions_start_at_one check (revision > 0),
  constraint revisions_chain_is_sha256 check (octet_length(chain) = 32)
);

create table control.blobs (
  sha256  bytea primary key,
  content bytea not null,
  constraint blobs_are_named_by_content check (sha256 = sha256(content))
);

create table control.agents (
  slug         text not null,
  display_name text not null,
  title        text not null,
  rev_from     bigint not null references control.revisions,
  rev_to       bigint references control.revisions,
  constraint agents_pk primary key (slug, rev_from),
  constraint agents_range check (rev_to > rev_from)
);
create unique index agents_one_current on control.agents (slug) where rev_to is null;

create table control.documents (
  agent    text not null,
  kind     text not null,
  body     text not null,
  sha256   bytea not null,
  rev_from bigint not null references control.revisions,
  rev_to   bigint references control.revisions,
  constraint documents_pk primary key (agent, kind, rev_from),
  constraint documents_kind check (kind in ('soul', 'mission', 'design')),
  constraint documents_range check (rev_to > rev_from)
);
create unique index documents_one_current on control.documents (agent, kind) where rev_to is null;

create table control.skills (
  agent       text not null,
  name        text not null,
  category    text not null,
  description text not null,
  tags        text[] not null,
  recall_only boolean not null,
  enabled     boolean not null,
  frontmatter jsonb not null,
  -- path → hex SHA-256 of a blob; SKILL.md is always there
  files       jsonb not null,
  rev_from    bigint not null references control.revisions,
  rev_to      bigint references control.revisions,
  constraint skills_pk primary key (agent, name, rev_from),
  constraint skills_have_skill_md check (files ? 'SKILL.md'),
  constraint skills_range check (rev_to > rev_from)
);
create unique index skills_one_current on control.skills (agent, name) where rev_to is null;

-- agent = '' holds the global scope
create table control.settings (
  agent    text not null,
  key      text not null,
  value    jsonb not null,
  rev_from bigint not null references control.revisions,
  rev_to   bigint references control.revisions,
  constraint settings_pk primary key (agent, key, rev_from),
  constraint settings_range check (rev_to > rev_from)
);
create unique index settings_one_current on control.settings (agent, key) where rev_to is null;

create table control.models (
  name              text not null,
  provider          text not null,
  upstream_model    text not null,
  window_tokens     integer,
  max_output_tokens integer,
  modalities        text[] not null,
  base_instructions text not null,
  prices            jsonb not null,
  rev_from          bigint not null references control.revisions,
  rev_to            bigint references control.revisions,
  constraint models_pk primary key (name, rev_from),
  constraint models_window check (window_tokens > 0),
  constraint models_range check (rev_to > rev_from)
);
create unique index models_one_current on control.models (name) where rev_to is null;

create table control.bindings (
  id                text not null,
  agent             text not null,
  adapter           text not null,
  account           text not null,
  unaddressed       text not null,
  max_message_bytes integer not null,
  rev_from          bigint not null references control.revisions,
  rev_to            bigint references control.revisions,
  constraint bindings_pk primary key (id, rev_from),
  constraint bindings_unaddressed check (unaddressed in ('ignore', 'record_only')),
  constraint bindings_limit check (max_message_bytes between 256 and 262144),
  constraint bindings_range check (rev_to > rev_from)
);
create unique index bindings_one_current on control.bindings (id) where rev_to is null;

-- Every revision at which something an agent resolves changed; agent = '' touches all of them.
-- An agent's effective revision at R is the greatest one here that is not above R.
create table control.agent_revisions (
  agent    text not null,
  revision bigint not null references control.revisions,
  constraint agent_revisions_pk primary key (agent, revision)
);

-- The heavy part of a conversation's context: one row per agent and effective revision.
create view control.agent_context as
select
  r.agent_slug,
  r.effective_revision,
  a.display_name,
  a.title,
  a.rev_from as profile_revision,
  (select coalesce(jsonb_object_agg(d.kind, jsonb_build_object(
            'text', d.body, 'sha256', encode(d.sha256, 'hex'), 'revision', d.rev_from)), '{}')
     from control.documents d
    where d.agent = r.agent_slug and d.rev_from <= r.effective_revision
      and (d.rev_to is null or d.rev_to > r.effective_revision)) as documents,
  (select coalesce(jsonb_agg(jsonb_build_object(
            'name', s.name, 'category', s.category, 'description', s.description,
            'tags', to_jsonb(s.tags), 'recall_only', s.recall_only, 'revision', s.rev_from)
            order by s.category collate "C", s.name collate "C"), '[]')
     from control.skills s
    where s.agent = r.agent_slug and s.enabled and s.rev_from <= r.effective_revision
      and (s.rev_to is null or s.rev_to > r.effective_revision)) as skills,
  (select jsonb_build_object('value', t.value, 'revision', t.rev_from)
     from control.settings t
    where t.agent = '' and t.key = 'system.timezone' and t.rev_from <= r.effective_revision
      and (t.rev_to is null or t.rev_to > r.effective_revision)) as timezone
from (select distinct g.slug as agent_slug, e.revision as effective_revision
        from control.agents g
        join control.agent_revisions e on e.agent in (g.slug, '')) r
join control.agents a
  on a.slug = r.agent_slug and a.rev_from <= r.effective_revision
 and (a.rev_to is null or a.rev_to > r.effective_revision);
