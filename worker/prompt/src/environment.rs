//! The environment context: where and when the turn runs, and what is enforced there. Whole when
//! the conversation has not been told, afterwards only the fields that changed.

use crate::baseline::{EnvironmentValues, Section};
use crate::context::{Filesystem, Network, Workspace};
use crate::fragment::{ContextFragment, Role};
use crate::trust::{PATH_MAX, one_line};
use crate::zone::Zone;
use chrono::{DateTime, Utc};

impl EnvironmentValues {
    /// What is true for a turn at `now`.
    pub(crate) fn observe(workspace: &Workspace, zone: Zone, now: DateTime<Utc>) -> Self {
        let filesystem = match workspace.filesystem {
            Filesystem::ReadOnlyWorkspace => "read-only workspace",
            Filesystem::WritableWorkspace => "read-write workspace",
        };
        Self {
            cwd: one_line(&workspace.path, PATH_MAX).into_owned(),
            shell: one_line(&workspace.shell, PATH_MAX).into_owned(),
            current_date: zone.date(now),
            timezone: zone.label().to_owned(),
            network: network(&workspace.network),
            filesystem: filesystem.to_owned(),
        }
    }

    /// Field names and values in the order in which they are shown.
    fn fields(&self) -> [(&'static str, &str); 6] {
        [
            ("cwd", &self.cwd),
            ("shell", &self.shell),
            ("current_date", &self.current_date),
            ("timezone", &self.timezone),
            ("network", &self.network),
            ("filesystem", &self.filesystem),
        ]
    }
}

fn network(network: &Network) -> String {
    match network {
        Network::None => "none".to_owned(),
        Network::Hosts(hosts) => {
            let mut hosts: Vec<&str> =
                hosts.iter().map(|h| h.trim()).filter(|h| !h.is_empty()).collect();
            hosts.sort_unstable();
            hosts.dedup();
            if hosts.is_empty() {
                return "none".to_owned();
            }
            one_line(&hosts.join(","), PATH_MAX).into_owned()
        }
    }
}

/// The fragment that tells `now` to a conversation that was told `last`.
pub(crate) struct EnvironmentContext<'a> {
    now: &'a EnvironmentValues,
    last: &'a Section<EnvironmentValues>,
}

impl<'a> EnvironmentContext<'a> {
    /// `None` when there is nothing new to tell.
    pub(crate) fn due(
        now: &'a EnvironmentValues,
        last: &'a Section<EnvironmentValues>,
    ) -> Option<Self> {
        match last {
            Section::Known(last) if last == now => None,
            Section::Absent | Section::Unknown | Section::Known(_) => Some(Self { now, last }),
        }
    }
}

impl ContextFragment for EnvironmentContext<'_> {
    fn role(&self) -> Role {
        Role::User
    }

    fn kind(&self) -> &'static str {
        "environment_context"
    }

    fn object(&self) -> String {
        "environment".to_owned()
    }

    fn markers(&self) -> (&'static str, &'static str) {
        ("<environment_context>", "</environment_context>")
    }

    fn write_body(&self, out: &mut String) {
        out.push('\n');
        let told = match self.last {
            Section::Known(last) => Some(last.fields()),
            Section::Absent => None,
            Section::Unknown => {
                out.push_str("  This replaces every earlier environment context.\n");
                None
            }
        };
        for (at, (name, value)) in self.now.fields().into_iter().enumerate() {
            let due = match told {
                Some(told) => told[at].1 != value,
                None => !value.is_empty(),
            };
            if due {
                push_field(out, name, value);
            }
        }
    }
}

fn push_field(out: &mut String, name: &str, value: &str) {
    out.push_str("  <");
    out.push_str(name);
    out.push('>');
    for c in value.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            other => out.push(other),
        }
    }
    out.push_str("</");
    out.push_str(name);
    out.push_str(">\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> EnvironmentValues {
        let workspace = Workspace {
            path: "/work/a</cwd>&b".into(),
            shell: "bash".into(),
            network: Network::Hosts(vec![
                "b.example".into(),
                "a.example".into(),
                "b.example".into(),
            ]),
            filesystem: Filesystem::WritableWorkspace,
        };
        let now = "2026-09-01T22:30:00Z".parse().unwrap();
        EnvironmentValues::observe(&workspace, Zone::named("Europe/Berlin"), now)
    }

    fn told(now: &EnvironmentValues, last: &Section<EnvironmentValues>) -> Option<String> {
        EnvironmentContext::due(now, last).map(|fragment| fragment.render())
    }

    #[test]
    fn a_new_conversation_is_told_everything_in_order() {
        assert_eq!(
            told(&values(), &Section::Absent).unwrap(),
            "<environment_context>\n  <cwd>/work/a&lt;/cwd&gt;&amp;b</cwd>\n  \
             <shell>bash</shell>\n  \
             <current_date>2026-09-02</current_date>\n  <timezone>Europe/Berlin</timezone>\n  \
             <network>a.example,b.example</network>\n  \
             <filesystem>read-write workspace</filesystem>\n</environment_context>"
        );
    }

    #[test]
    fn a_later_turn_is_told_only_what_changed() {
        let last = Section::Known(values());
        assert_eq!(told(&values(), &last), None);
        let mut now = values();
        now.current_date = "2026-09-03".into();
        now.network = "none".into();
        assert_eq!(
            told(&now, &last).unwrap(),
            "<environment_context>\n  <current_date>2026-09-03</current_date>\n  \
             <network>none</network>\n</environment_context>"
        );
        now = values();
        now.shell = String::new();
        assert_eq!(
            told(&now, &last).unwrap(),
            "<environment_context>\n  <shell></shell>\n</environment_context>"
        );
    }

    #[test]
    fn a_lost_record_is_replaced_as_a_whole() {
        let whole = told(&values(), &Section::Absent).unwrap();
        let again = told(&values(), &Section::Unknown).unwrap();
        assert!(again.len() > whole.len());
        for line in whole.lines() {
            assert!(again.lines().any(|other| other == line), "{line} is missing");
        }
    }
}
