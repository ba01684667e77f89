//! JSON objects whose values stay text: what is not understood is kept exactly as it came.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// No request and no item has more.
const MOST_FIELDS: usize = 128;

/// The fields of an object, in order, their values as they were written.
#[derive(Debug)]
pub(crate) struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Parses an object.
    pub(crate) fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(key, value)| (key.as_str(), *value))
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.iter().find_map(|(name, value)| (name == key).then_some(value))
    }

    /// The object without one field; the other values keep their bytes.
    pub(crate) fn without(&self, key: &str) -> String {
        let mut text = String::from("{");
        for (name, value) in self.iter().filter(|(name, _)| *name != key) {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&serde_json::Value::from(name).to_string());
            text.push(':');
            text.push_str(value.get());
        }
        text.push('}');
        text
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields: Self::Value = Vec::with_capacity(8);
                while let Some(key) = map.next_key::<String>()? {
                    // Bounds the search below, too.
                    if fields.len() == MOST_FIELDS {
                        let many = format_args!("more than {MOST_FIELDS} fields");
                        return Err(serde::de::Error::custom(many));
                    }
                    if fields.iter().any(|(known, _)| *known == key) {
                        let twice = format_args!("field `{key}` stands twice");
                        return Err(serde::de::Error::custom(twice));
                    }
                    fields.push((key, map.next_value()?));
                }
                Ok(fields)
            }
        }

        deserializer.deserialize_map(Reader).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_with_very_many_fields_is_refused() {
        let object = |n: usize| {
            let fields: Vec<String> = (0..n).map(|i| format!("\"k{i}\":0")).collect();
            format!("{{{}}}", fields.join(","))
        };
        assert!(Fields::parse(&object(MOST_FIELDS)).is_ok());
        assert!(Fields::parse(&object(MOST_FIELDS + 1)).is_err());
    }
    use proptest::prelude::*;
    use serde_json::Value;

    #[test]
    fn values_keep_their_bytes_when_a_field_is_taken_out() {
        let text = r#"{"a": 1.50, "turnwright":{"x":[1]},"b":{ "c" :"\u00e4"},"é":1e5}"#;
        let fields = Fields::parse(text).unwrap();
        assert_eq!(fields.without("turnwright"), r#"{"a":1.50,"b":{ "c" :"\u00e4"},"é":1e5}"#);
        assert_eq!(fields.get("turnwright").unwrap().get(), r#"{"x":[1]}"#);
        assert!(fields.get("c").is_none());
        assert_eq!(fields.without("a").matches("\"a\"").count(), 0);
    }

    #[test]
    fn a_field_that_stands_twice_is_refused() {
        assert!(Fields::parse(r#"{"a":1,"a":2}"#).is_err());
        assert!(Fields::parse("[]").is_err());
    }

    proptest! {
        #[test]
        fn what_stays_means_the_same(keys in proptest::collection::btree_set("\\PC{0,6}", 0..6)) {
            let object: serde_json::Map<String, Value> =
                keys.iter().map(|k| (k.clone(), Value::from(k.len()))).collect();
            let text = Value::Object(object.clone()).to_string();
            let kept = Fields::parse(&text).unwrap().without("never there, too long");
            prop_assert_eq!(serde_json::from_str::<Value>(&kept).unwrap(), Value::Object(object));
        }
    }
}
