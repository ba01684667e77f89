use super::{file, index::MESSAGES, *};
use crate::api::{AgentPart, Conversation, Sender, UserPart};
use proptest::prelude::*;
use tokio_util::sync::CancellationToken;
use turnwright_kit::{OnExit, Outcome, Supervisor};
use turnwright_types::{BindingId, DeliveryId, EventKey};

fn lane(conversation: &str) -> Lane {
    Lane {
        binding: BindingId::parse("console-maren").unwrap(),
        conversation: Conversation::parse(conversation).unwrap(),
    }
}

fn post(delivery: DeliveryId, text: &str) -> Draft {
    Draft {
        lane: lane("main"),
        nonce: delivery.to_string(),
        text: text.to_owned(),
        by: By::Agent(AgentPart {
            delivery_id: delivery,
            reply_to: None,
            reply_event_key: None,
            origin: "reply".to_owned(),
            turn_id: None,
            conversation_id: None,
            ordinal: 0,
            chunks: 1,
        }),
    }
}

fn user_message(index: u64, text: &str) -> Message {
    let key = format!("k{index}");
    Message {
        index,
        message_id: message_id(&key),
        at: chrono::DateTime::UNIX_EPOCH,
        text: text.to_owned(),
        by: By::User(UserPart {
            event_key: EventKey::parse(key).unwrap(),
            sender: Sender::default(),
            order_key: format!("{index:020}"),
        }),
    }
}

/// Runs `work` against the store in `path`, from opening it to the end of its writer.
async fn with_store<T>(path: &std::path::Path, work: impl AsyncFnOnce(Journal) -> T) -> T {
    let sup = Supervisor::default();
    let (journal, writer) = open(path.to_owned(), Arc::default()).await.unwrap();
    sup.spawn("journal", OnExit::StopProcess, |stop: CancellationToken| writer.run(stop));
    let result = work(journal).await;
    assert_eq!(sup.run_until(async {}, Duration::from_secs(5)).await, Outcome::Clean);
    result
}

proptest! {
    #[test]
    fn a_cut_file_loads_the_complete_lines_before_the_cut(
        texts in prop::collection::vec("(?s).{0,30}", 1..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let lane = lane("main");
        let mut bytes = Vec::new();
        let mut ends = vec![0];
        for (text, index) in texts.iter().zip(1..) {
            file::encode(&mut bytes, &lane, &user_message(index, text)).unwrap();
            ends.push(bytes.len());
        }
        let cut = cut.index(bytes.len() + 1);
        let complete = ends.iter().filter(|end| **end <= cut).count() - 1;

        let mut index = Index::default();
        let loaded = file::load(&bytes[..cut], &mut index).unwrap();

        prop_assert_eq!(loaded, file::Loaded { length: ends[complete] as u64, unreadable: 0 });
        let held: Vec<_> = index.after(&lane, 0).iter().map(|m| m.text.clone()).collect();
        prop_assert_eq!(&held[..], &texts[..complete]);
        prop_assert_eq!(index.next_index(), complete as u64 + 1);
    }

    #[test]
    fn the_newest_messages_are_held_and_every_place_is_asked_for_exactly(
        count in 1..MESSAGES * 2,
        after in 0..MESSAGES * 2,
    ) {
        let (lane, mut index) = (lane("main"), Index::default());
        for n in 1..=count as u64 {
            index.push(&lane, Arc::new(user_message(n, "x")));
        }
        let got: Vec<_> = index.after(&lane, after as u64).iter().map(|m| m.index).collect();
        let first = after.max(count.saturating_sub(MESSAGES)) + 1;
        let want: Vec<_> = (first as u64..=count as u64).collect();
        prop_assert_eq!(got, want);
    }
}

#[test]
fn a_line_that_is_no_record_does_not_hide_the_others() {
    let lane = lane("main");
    let mut bytes = Vec::new();
    file::encode(&mut bytes, &lane, &user_message(1, "a")).unwrap();
    bytes.extend_from_slice(b"{\"lane\":\n");
    file::encode(&mut bytes, &lane, &user_message(2, "b")).unwrap();
    let mut index = Index::default();
    assert_eq!(file::load(&bytes[..], &mut index).unwrap().unreadable, 1);
    assert_eq!(index.after(&lane, 0).len(), 2);
}

#[tokio::test]
async fn a_nonce_posts_once_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let delivery = DeliveryId::new();
    let first = with_store(&path, async |journal| {
        let (a, b) = tokio::join!(
            journal.append(post(delivery, "hi")),
            journal.append(post(delivery, "again"))
        );
        let (a, b) = (a.unwrap(), b.unwrap());
        assert_eq!(a, b);
        assert_eq!(journal.append(post(delivery, "hi")).await.unwrap(), a);
        a
    })
    .await;
    with_store(&path, async |journal| {
        assert_eq!(journal.find(&delivery.to_string()), Some(first));
        assert_eq!(journal.append(post(delivery, "hi")).await.unwrap(), first);
        assert_eq!(journal.after(&lane("main"), 0).len(), 1);
        let next = journal.append(post(DeliveryId::new(), "ho")).await.unwrap();
        assert!(next.index > first.index);
    })
    .await;
}

#[tokio::test]
async fn a_torn_last_line_is_cut_off_before_the_next_append() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let (kept, torn) = (DeliveryId::new(), DeliveryId::new());
    with_store(&path, async |journal| {
        journal.append(post(kept, "kept")).await.unwrap();
        journal.append(post(torn, "torn")).await.unwrap();
    })
    .await;
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
    with_store(&path, async |journal| {
        assert_eq!(journal.find(&torn.to_string()), None);
        journal.append(post(torn, "torn")).await.unwrap();
    })
    .await;
    assert_eq!(
        std::fs::read_to_string(&path)
            .unwrap()
            .lines()
            .filter(|line| serde_json::from_str::<serde_json::Value>(line).is_ok())
            .count(),
        2
    );
}

#[tokio::test]
async fn two_processes_do_not_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let _held = open(path.clone(), Arc::default()).await.unwrap();
    let second = open(path, Arc::default()).await;
    assert!(matches!(second, Err(JournalError::InUse { .. })));
}
