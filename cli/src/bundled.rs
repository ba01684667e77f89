//! What ships inside the command: the example agents and the rules of the scripted provider.

include!(concat!(env!("OUT_DIR"), "/bundled.rs"));

/// The rules that the scripted provider of a new data folder answers by.
pub const DEMO_RULES: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../gateway/scripted/rules/demo.yaml"));

/// The file of an agents folder that names providers and models.
pub const MODELS: &str = "models.yaml";

/// The content of a bundled file.
#[must_use]
pub fn agent_file(path: &str) -> Option<&'static [u8]> {
    AGENTS.iter().find(|(at, _)| *at == path).map(|(_, content)| *content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_hold_models_and_at_least_one_agent() {
        assert!(agent_file(MODELS).is_some());
        assert!(AGENTS.iter().any(|(path, _)| path.ends_with("/agent.yaml")));
        assert!(AGENTS.iter().all(|(path, _)| !path.starts_with('/') && !path.contains("..")));
        assert!(DEMO_RULES.contains("rules:"));
    }
}
