//! From the wire to what a prompt is made of, and nothing else. Wire types stop here.

use crate::envelope::{BatchSignal, Claim};
use turnwright_prompt::{
    Addressed, AgentProfile, BaseText, ChannelKind, Context, Document, DocumentSource, Documents,
    Filesystem, ModelProfile, Network, OriginChannel, SignalText, Skill, Speaker, StoredBase,
    TurnFacts, Workspace,
};
use turnwright_proto::{
    convert::{enumeration, time},
    v1,
};
use turnwright_types::{Invalid, Sha256, SignalId, gateway::OpenedTurn};

/// A revision; 0 where the field allows that nothing wrote it.
pub(crate) fn revision(field: &'static str, raw: i64) -> Result<u64, Invalid> {
    u64::try_from(raw).map_err(|_| Invalid::new(field, "must not be negative"))
}

/// What assembly must know of a model.
pub(crate) fn model(wire: v1::ModelProfile) -> Result<ModelProfile, Invalid> {
    if wire.name.is_empty() {
        return Err(Invalid::new("model.name", "must not be empty"));
    }
    Ok(ModelProfile {
        name: wire.name,
        window_tokens: wire.window_tokens.and_then(|tokens| u32::try_from(tokens).ok()),
        default_base_instructions: BaseText {
            text: wire.default_base_instructions,
            revision: revision("model.revision", wire.revision)?,
        },
    })
}

/// A signal of a batch.
pub(crate) fn signal(wire: v1::BatchSignal) -> Result<BatchSignal, Invalid> {
    let addressed: turnwright_types::Addressed =
        enumeration::<v1::Addressed, _>("addressed", wire.addressed)?;
    Ok(BatchSignal {
        id: SignalId::parse(&wire.signal_id)?,
        event_key: wire.event_key,
        asked: wire.asked,
        said: SignalText {
            signal_id: wire.signal_id,
            speaker: Speaker { display_name: wire.speaker_name, external_id: wire.speaker_id },
            addressed: match addressed {
                turnwright_types::Addressed::Dm => Addressed::Dm,
                turnwright_types::Addressed::Mention => Addressed::Mention,
                turnwright_types::Addressed::Reply => Addressed::Reply,
                turnwright_types::Addressed::None => Addressed::None,
            },
            occurred_at: time("occurred_at", wire.occurred_at)?,
            text: wire.text,
            reply_to: Some(wire.reply_to).filter(|id| !id.is_empty()),
        },
    })
}

/// The agent's context, as the broker answers it.
pub(crate) fn context(wire: v1::GetConversationContextResponse) -> Result<Context, Invalid> {
    let agent = wire.agent.ok_or_else(|| Invalid::new("agent", "must be set"))?;
    let origin = wire.origin.ok_or_else(|| Invalid::new("origin", "must be set"))?;
    let skills = agent.skills.into_iter().filter(|skill| !skill.recall_only);
    let kind: turnwright_types::ChannelKind =
        enumeration::<v1::ChannelKind, _>("origin.kind", origin.kind)?;
    Ok(Context {
        agent: AgentProfile {
            slug: agent.slug,
            display_name: agent.display_name,
            title: agent.title,
        },
        documents: Documents {
            soul: document("soul", agent.soul)?,
            mission: document("mission", agent.mission)?,
            design: document("design", agent.design)?,
        },
        skills: skills.map(skill).collect::<Result<_, _>>()?,
        origin: OriginChannel {
            adapter: origin.adapter,
            kind: match kind {
                turnwright_types::ChannelKind::Dm => ChannelKind::Dm,
                turnwright_types::ChannelKind::Group => ChannelKind::Group,
                turnwright_types::ChannelKind::Thread => ChannelKind::Thread,
                turnwright_types::ChannelKind::Webhook => ChannelKind::Webhook,
            },
            label: Some(origin.label).filter(|label| !label.is_empty()),
        },
        timezone: agent.timezone,
        conversation_id: origin.conversation_id,
        conversation_key: origin.conversation_key,
        started_at: time("origin.started_at", origin.started_at)?,
        effective_revision: revision("effective_revision", agent.effective_revision)?,
    })
}

fn document(field: &'static str, wire: Option<v1::Document>) -> Result<Document, Invalid> {
    let wire = wire.ok_or_else(|| Invalid::new(field, "must be set"))?;
    let source = match revision(field, wire.revision)? {
        0 => DocumentSource::Template,
        revision => DocumentSource::Agent { revision },
    };
    Ok(Document { text: wire.text, sha256: wire.sha256, source })
}

fn skill(wire: v1::SkillSummary) -> Result<Skill, Invalid> {
    Ok(Skill {
        revision: revision("skill.revision", wire.revision)?,
        name: wire.name,
        category: wire.category,
        description: wire.description,
        tags: wire.tags,
    })
}

/// The facts of a turn. Signals whose text is stored already are left out: they were said before.
pub(crate) fn facts(claim: &Claim, opened: &OpenedTurn) -> TurnFacts {
    let config = &claim.start.config;
    let open = claim.batch.iter().filter(|signal| !opened.stored_signals.contains(&signal.id));
    TurnFacts {
        turn_id: claim.start.turn.to_string(),
        turn_seq: claim.fence.turn_seq,
        model: config.model.clone(),
        base_override: config.base_override.clone(),
        stored_base: opened
            .base_instructions
            .as_ref()
            .map(|text| StoredBase { text: text.clone(), sha256: Sha256::of(text).to_string() }),
        signals: open.map(|signal| signal.said.clone()).collect(),
        now: claim.now,
    }
}

/// Where tools run. It names what is enforced and no more: no tool runs a command, writes a file or
/// opens a connection.
pub(crate) fn workspace(path: &str) -> Workspace {
    Workspace {
        path: path.to_owned(),
        shell: "none".to_owned(),
        network: Network::None,
        filesystem: Filesystem::ReadOnlyWorkspace,
    }
}
