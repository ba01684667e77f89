//! Configuration: revisions without a gap, chained by hash, and at each of them one version of
//! every object.

use crate::rule::{Rule, rule};

pub(super) const RULES: &[Rule] = &[
    REVISIONS_ARE_CONTIGUOUS,
    REVISION_CHAIN_HOLDS,
    VERSIONS_DO_NOT_OVERLAP,
    CHANGE_RAISES_THE_EFFECTIVE_REVISION,
    SKILL_FILES_ARE_STORED,
    DOCUMENT_MATCHES_ITS_HASH,
];

rule! {
    /// 1 to n, and n stands in the counter.
    REVISIONS_ARE_CONTIGUOUS, "revisions-are-contiguous", r#"
    select 'revision ' || c.revision as "object!",
           format('the counter stands at %s; %s revisions are stored, numbered %s to %s',
                  c.revision, r.n, coalesce(r.lo, 0), coalesce(r.hi, 0)) as "detail!"
      from control.revision_counter c
     cross join (select count(*) as n, min(revision) as lo, max(revision) as hi
                   from control.revisions) r
     where c.revision <> coalesce(r.hi, 0) or r.n <> coalesce(r.hi, 0) or coalesce(r.lo, 1) <> 1"#
}

rule! {
    /// Each revision is linked to the one before by a hash over both and what it changed.
    REVISION_CHAIN_HOLDS, "revision-chain-holds", r#"
    select 'revision ' || r.revision as "object!",
           case when p.revision is null and r.revision > 1
                  then format('is linked to revision %s, which is not stored', r.revision - 1)
                else 'its link is not the hash of the one before and of its changes'
           end as "detail!"
      from control.revisions r
      left join control.revisions p on p.revision = r.revision - 1
     where (p.revision is null and r.revision > 1)
        or r.chain <> sha256(coalesce(p.chain, decode(repeat('00', 32), 'hex'))
                             || int8send(r.revision) || convert_to(r.changes::text, 'UTF8'))"#
}

rule! {
    /// At each revision an object has at most one version.
    VERSIONS_DO_NOT_OVERLAP, "versions-do-not-overlap", r#"
    select v.kind || ' ' || v.name as "object!",
           format('its version of revision %s is valid until %s, but the next begins at %s',
                  v.rev_from, coalesce(v.rev_to::text, 'now'), v.following) as "detail!"
      from (select o.kind, o.name, o.rev_from, o.rev_to,
                   lead(o.rev_from) over (partition by o.kind, o.name order by o.rev_from)
                     as following
              from (select 'agent' as kind, slug as name, rev_from, rev_to from control.agents
                    union all
                    select 'document', agent || '/' || kind, rev_from, rev_to
                      from control.documents
                    union all
                    select 'skill', agent || '/' || name, rev_from, rev_to from control.skills
                    union all
                    select 'setting', agent || '/' || key, rev_from, rev_to from control.settings
                    union all
                    select 'model', name, rev_from, rev_to from control.models
                    union all
                    select 'binding', id, rev_from, rev_to from control.bindings) o) v
     where v.following is not null and (v.rev_to is null or v.rev_to > v.following)"#
}

rule! {
    /// Caches are keyed by an agent's effective revision: a change that does not raise it is
    /// never seen.
    CHANGE_RAISES_THE_EFFECTIVE_REVISION, "change-raises-the-effective-revision", r#"
    select o.kind || ' ' || o.agent || '/' || o.name as "object!",
           format('changed at revision %s, which is no effective revision of the agent', o.at)
             as "detail!"
      from (select 'agent' as kind, v.slug as agent, '' as name, b.at
              from control.agents v cross join lateral (values (v.rev_from), (v.rev_to)) b(at)
            union all
            select 'document', v.agent, v.kind, b.at
              from control.documents v cross join lateral (values (v.rev_from), (v.rev_to)) b(at)
            union all
            select 'skill', v.agent, v.name, b.at
              from control.skills v cross join lateral (values (v.rev_from), (v.rev_to)) b(at)
            union all
            select 'setting', v.agent, v.key, b.at
              from control.settings v cross join lateral (values (v.rev_from), (v.rev_to)) b(at)) o
     where o.at is not null
       and not exists (select from control.agent_revisions e
                        where e.revision = o.at and e.agent in (o.agent, ''))"#
}

rule! {
    /// What a skill names can be read.
    SKILL_FILES_ARE_STORED, "skill-files-are-stored", r#"
    select s.agent || '/' || s.name as "object!",
           format('file %s of revision %s has no stored content', f.key, s.rev_from) as "detail!"
      from control.skills s
     cross join lateral jsonb_each_text(s.files) f
     where not exists (select from control.blobs b where b.sha256 = decode(f.value, 'hex'))"#
}

rule! {
    /// The hash that prompts and manifests quote is the text's.
    DOCUMENT_MATCHES_ITS_HASH, "document-matches-its-hash", r#"
    select d.agent || '/' || d.kind as "object!",
           format('the text of revision %s has another hash than stored', d.rev_from) as "detail!"
      from control.documents d
     where d.sha256 <> sha256(convert_to(d.body, 'UTF8'))"#
}
