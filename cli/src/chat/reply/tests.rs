use super::*;
use turnwright_adapters::api::{Sender, UserPart};
use turnwright_proto::v1::{TextDelta, ToolStarted, TurnStarted};
use turnwright_types::{DeliveryId, EventKey, TurnId};
use uuid::Uuid;

const KEY: &str = "key-1";

fn progress(turn: &str, epoch: i64, event: Step) -> Event {
    Event::Progress(TurnProgress {
        turn_id: turn.to_owned(),
        epoch,
        event: Some(event),
        ..TurnProgress::default()
    })
}

fn started(turn: &str, epoch: i64, keys: &[&str]) -> Event {
    let event_keys = keys.iter().map(|k| (*k).to_owned()).collect();
    progress(turn, epoch, Step::Started(TurnStarted { event_keys, turn_seq: 3 }))
}

fn delta(turn: &str, epoch: i64, text: &str) -> Event {
    progress(turn, epoch, Step::TextDelta(TextDelta { text: text.to_owned() }))
}

fn message(text: &str, by: By) -> Event {
    Event::Message(Message {
        index: 1,
        message_id: Uuid::now_v7(),
        at: chrono::DateTime::UNIX_EPOCH,
        text: text.to_owned(),
        by,
    })
}

fn delivered(
    key: Option<&str>,
    turn: TurnId,
    origin: &str,
    place: (i32, i32),
    text: &str,
) -> Event {
    message(
        text,
        By::Agent(AgentPart {
            delivery_id: DeliveryId::new(),
            reply_to: None,
            reply_event_key: key.map(str::to_owned),
            origin: origin.to_owned(),
            turn_id: Some(turn),
            conversation_id: None,
            ordinal: place.0,
            chunks: place.1,
        }),
    )
}

#[test]
fn a_reply_is_whole_when_all_its_chunks_are_there() {
    let (turn, mut reply) = (TurnId::new(), Reply::to(KEY.to_owned()));
    let first = delivered(Some(KEY), turn, "reply", (0, 2), "one");
    let second = delivered(Some(KEY), turn, "reply", (1, 2), "two");
    assert_eq!(reply.observe(&second), Update::Nothing);
    assert_eq!(reply.observe(&second), Update::Nothing);
    assert_eq!(reply.observe(&first), Update::Complete);
    assert_eq!(reply.text(), "one\n\ntwo");
    assert_eq!(reply.turn_id(), Some(turn.to_string().as_str()));
}

#[test]
fn what_answers_others_is_not_taken() {
    let (turn, mut reply) = (TurnId::new(), Reply::to(KEY.to_owned()));
    let other = delivered(Some("key-2"), turn, "reply", (0, 1), "not mine");
    assert_eq!(reply.observe(&other), Update::Nothing);
    assert_eq!(reply.observe(&started("t", 1, &["key-2"])), Update::Nothing);
    assert_eq!(reply.observe(&delta("t", 1, "no")), Update::Nothing);
    let own = By::User(UserPart {
        event_key: EventKey::parse(KEY).unwrap(),
        sender: Sender::default(),
        order_key: "1".to_owned(),
    });
    assert_eq!(reply.observe(&message("mine", own)), Update::Nothing);
    assert!(!reply.is_over());
}

#[test]
fn a_batch_is_answered_under_its_newest_message() {
    let (turn, mut reply) = (TurnId::new(), Reply::to(KEY.to_owned()));
    let id = turn.to_string();
    assert_eq!(reply.observe(&started(&id, 1, &[KEY, "key-2"])), Update::Started);
    let answer = delivered(Some("key-2"), turn, "reply", (0, 1), "both");
    assert_eq!(reply.observe(&answer), Update::Complete);
    assert_eq!(reply.turn_seq(), Some(3));
}

#[test]
fn a_takeover_voids_the_draft_and_the_stale_worker_is_not_heard() {
    let mut reply = Reply::to(KEY.to_owned());
    reply.observe(&started("t", 1, &[KEY]));
    let text = |text: &str, again| Update::Text { text: text.to_owned(), again };
    assert_eq!(reply.observe(&delta("t", 1, "old ")), text("old ", false));
    assert_eq!(reply.observe(&started("t", 2, &[KEY])), Update::Nothing);
    assert_eq!(reply.observe(&delta("t", 1, "stale")), Update::Nothing);
    assert_eq!(reply.observe(&delta("t", 2, "new ")), text("new ", true));
    // The start of the third was lost: its first text tells as much.
    assert_eq!(reply.observe(&delta("t", 3, "newest")), text("newest", true));
    assert_eq!(reply.draft(), "newest");
}

#[test]
fn words_before_a_tool_are_no_part_of_the_reply() {
    let mut reply = Reply::to(KEY.to_owned());
    reply.observe(&started("t", 1, &[KEY]));
    reply.observe(&delta("t", 1, "let me see"));
    let tool = ToolStarted { call_id: "c".to_owned(), tool: "skill_view".to_owned() };
    let update = reply.observe(&progress("t", 1, Step::ToolStarted(tool)));
    assert_eq!(update, Update::Tool("skill_view".to_owned()));
    assert_eq!(reply.draft(), "");
}

#[test]
fn a_notice_ends_the_wait() {
    let mut reply = Reply::to(KEY.to_owned());
    let notice = delivered(Some(KEY), TurnId::new(), "notice", (0, 1), "sorry");
    assert_eq!(reply.observe(&notice), Update::Notice);
    assert!(reply.is_over());
    assert_eq!(reply.text(), "sorry");
}

#[test]
fn a_reader_ends_with_the_whole_text_whatever_was_streamed() {
    assert_eq!(closing("", "all"), "all\n");
    assert_eq!(closing("the  text\n", "the text"), "\n");
    assert_eq!(closing("the te", "the text"), "xt\n");
    assert_eq!(closing("something else", "the text"), "\nthe text\n");
}
