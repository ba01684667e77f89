//! Cuts a reply into provider messages, once, in the transaction that ends its turn.

/// The pieces of `text`, each at most `max` bytes, in order; nothing is lost but the white space
/// at a cut. Prefers to cut at a blank line, then a line, then a word; never inside a character.
/// `max` below 4 is taken as 4, so that any character fits.
#[must_use]
pub fn chunks(text: &str, max: usize) -> Vec<String> {
    let max = max.max(4);
    let mut rest = text.trim();
    let mut out = Vec::new();
    while rest.len() > max {
        let window = &rest[..floor_char(rest, max)];
        let cut = ["\n\n", "\n", " "]
            .iter()
            .filter_map(|sep| window.rfind(sep))
            // A cut in the first quarter would make many small messages.
            .find(|&at| at >= max / 4)
            .unwrap_or(window.len());
        out.push(rest[..cut].trim_end().to_owned());
        rest = rest[cut..].trim_start();
    }
    if !rest.is_empty() {
        out.push(rest.to_owned());
    }
    out
}

fn floor_char(text: &str, max: usize) -> usize {
    (0..=max).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::chunks;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_piece_fits_and_every_word_arrives(text in "[a-zä€😀 \n]{0,400}", max in 4_usize..80) {
            let pieces = chunks(&text, max);
            prop_assert!(pieces.iter().all(|p| p.len() <= max && !p.is_empty()));
            let squeeze = |s: &str| s.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(squeeze(&pieces.concat()), squeeze(&text));
        }
    }

    #[test]
    fn paragraphs_are_kept_whole_when_they_fit() {
        assert_eq!(chunks("one two\n\nthree four", 12), ["one two", "three four"]);
        assert!(chunks("  \n ", 10).is_empty());
    }
}
