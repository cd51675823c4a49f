//! Suggestions for misspelt names.

/// Returns the most similar known name, unless all are too different.
pub(super) fn suggest_similar<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let folded = name.to_lowercase();
    let (distance, nearest) = known.map(|other| (edit_distance(&folded, &other.to_lowercase()), other)).min()?;
    (distance <= name.chars().count() / 2).then(|| nearest.to_owned())
}

/// Levenshtein distance.
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in to.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distances() {
        for (from, to, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("listen", "listn", 1),
            ("kitten", "sitting", 3),
            ("http.lsiten", "http.listen", 2),
        ] {
            assert_eq!(edit_distance(from, to), expected, "{from} {to}");
        }
    }

    #[test]
    fn dissimilar_names_are_not_suggested() {
        assert_eq!(suggest_similar("zzz", ["region", "base_url"].into_iter()), None);
        assert_eq!(suggest_similar("regoin", ["region", "base_url"].into_iter()).as_deref(), Some("region"));
    }
}
