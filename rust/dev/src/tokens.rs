//! The tokens of a Rust file, as far as paths and items need them.
//!
//! A token is an identifier or keyword, `::`, `$crate`, a string literal with its quotes, or one other sign. Comments,
//! characters, lifetimes' apostrophes, numbers and raw strings are left out.

/// The tokens of a file, without the items under `#[cfg(test)]`.
pub fn read(text: &str) -> Vec<String> {
    without_tests(&tokens(text))
}

pub fn is_word(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// The position of the bracket that closes the one at `open`.
pub fn closing(tokens: &[String], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len()
}

fn without_tests(tokens: &[String]) -> Vec<String> {
    let attribute = ["#", "[", "cfg", "(", "test", ")", "]"].map(String::from);
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        if tokens[at..].starts_with(&attribute) {
            at = item_end(tokens, at + attribute.len()) + 1;
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

/// The last token of the item that begins at `start`: the end of its block, or a semicolon before any block.
fn item_end(tokens: &[String], start: usize) -> usize {
    let is_use = tokens.get(start).is_some_and(|token| token == "use");
    for (at, token) in tokens.iter().enumerate().skip(start) {
        match token.as_str() {
            "{" if !is_use => return closing(tokens, at),
            ";" => return at,
            _ => {}
        }
    }
    tokens.len()
}

fn tokens(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let next = |at: usize| letters.get(at + 1).copied().unwrap_or('\0');
    let mut found: Vec<String> = Vec::new();
    let mut at = 0;
    while at < letters.len() {
        let letter = letters[at];
        match letter {
            '/' if next(at) == '/' => at = find(&letters, at, |at| letters[at] == '\n'),
            '/' if next(at) == '*' => at = after_comment(&letters, at),
            '"' => {
                let end = after_string(&letters, at);
                found.push(letters[at..end].iter().collect());
                at = end;
            }
            '\'' => at = after_apostrophe(&letters, at),
            _ if letter.is_alphabetic() || letter == '_' => {
                let end = word_end(&letters, at);
                let word: String = letters[at..end].iter().collect();
                let is_raw = matches!(word.as_str(), "r" | "br" | "cr") && matches!(letters.get(end), Some('"' | '#'));
                if is_raw {
                    at = after_raw(&letters, end);
                } else {
                    found.push(word);
                    at = end;
                }
            }
            _ if letter.is_ascii_digit() => at = word_end(&letters, at),
            ':' if next(at) == ':' => {
                found.push("::".into());
                at += 2;
            }
            '$' if letters[at + 1..].starts_with(&['c', 'r', 'a', 't', 'e']) => {
                found.push("$crate".into());
                at += "$crate".len();
            }
            _ => {
                if !letter.is_whitespace() {
                    found.push(letter.into());
                }
                at += 1;
            }
        }
    }
    found
}

fn find(letters: &[char], from: usize, is_end: impl Fn(usize) -> bool) -> usize {
    (from..letters.len()).find(|&at| is_end(at)).unwrap_or(letters.len())
}

fn word_end(letters: &[char], from: usize) -> usize {
    find(letters, from, |at| !(letters[at].is_alphanumeric() || letters[at] == '_'))
}

/// The position after a block comment, which may contain others.
fn after_comment(letters: &[char], from: usize) -> usize {
    let (mut depth, mut at) = (0, from);
    while at < letters.len() {
        match letters[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn after_string(letters: &[char], from: usize) -> usize {
    let mut at = from + 1;
    while at < letters.len() && letters[at] != '"' {
        at += if letters[at] == '\\' { 2 } else { 1 };
    }
    letters.len().min(at + 1)
}

/// The position after a character, or after the apostrophe of a lifetime.
fn after_apostrophe(letters: &[char], from: usize) -> usize {
    match letters[from + 1..] {
        ['\\', ..] => find(letters, from + 3, |at| letters[at] == '\'') + 1,
        [_, '\'', ..] => from + 3,
        _ => from + 1,
    }
}

/// The position after a raw string whose hashes, if any, begin at `from`; after the hash of a raw identifier.
fn after_raw(letters: &[char], from: usize) -> usize {
    let hashes = letters[from..].iter().take_while(|letter| **letter == '#').count();
    if letters.get(from + hashes) != Some(&'"') {
        return from + hashes;
    }
    let is_end = |at: usize| letters[at] == '"' && letters[at + 1..].starts_with(&vec!['#'; hashes]);
    find(letters, from + hashes + 1, is_end) + hashes + 1
}
