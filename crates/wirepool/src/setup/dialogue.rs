//! Questions and answers, line by line.
//!
//! **Owns** the form of a question. **Called by** `choose`, `setup` and `rdma_setup_command`. **Invariants**: an answer that
//! cannot be used is asked for again; the end of the input ends the dialogue with an error; text from disks is escaped before it is shown.

use anyhow::{Result, bail};
use std::io::{BufRead, Write};

/// A question that a flag may answer.
pub(crate) struct Question<'a> {
    /// The flag with the answer, for the message of a run without questions.
    pub(crate) flag: &'a str,
    /// The text, without a question mark.
    pub(crate) text: &'a str,
    /// The answer of an empty line.
    pub(crate) default: Option<String>,
}

/// A person at a terminal or a script, or nobody: then defaults are the answers.
pub(crate) struct Dialogue<'a> {
    streams: Option<(&'a mut dyn BufRead, &'a mut dyn Write)>,
}

impl<'a> Dialogue<'a> {
    /// Questions are asked.
    pub(crate) fn with(input: &'a mut dyn BufRead, output: &'a mut dyn Write) -> Dialogue<'a> {
        Dialogue {
            streams: Some((input, output)),
        }
    }

    /// Nobody is asked.
    pub(crate) fn silent() -> Dialogue<'a> {
        Dialogue { streams: None }
    }

    /// Whether questions are asked.
    pub(crate) fn is_attended(&self) -> bool {
        self.streams.is_some()
    }

    /// Shows lines to a person.
    pub(crate) fn say(&mut self, text: &str) -> Result<()> {
        if let Some((_, output)) = &mut self.streams {
            output.write_all(io::printable::printable_lines(text).as_bytes())?;
            output.flush()?;
        }
        Ok(())
    }

    /// One line of the input. Errors: its end.
    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if let Some((input, _)) = &mut self.streams
            && input.read_line(&mut line)? > 0
        {
            return Ok(line.trim().to_owned());
        }
        bail!("the input ended before the last question: nothing was changed");
    }

    /// Asks until `parse` takes the answer. Without a person the default is the answer. Errors: there is none, it cannot be used,
    /// or the input ends.
    pub(crate) fn ask<T>(
        &mut self,
        question: &Question<'_>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T> {
        let Question {
            flag,
            text,
            default,
        } = question;
        if self.streams.is_none() {
            let Some(answer) = default else {
                bail!("{text}: no answer; give {flag}");
            };
            return parse(answer).map_err(|e| anyhow::anyhow!("{text}: {e}; give {flag}"));
        }
        loop {
            let default_text = match default.as_deref() {
                Some("") => " [none]".to_owned(),
                Some(answer) => format!(" [{answer}]"),
                None => String::new(),
            };
            self.say(&format!("{text}{default_text}? "))?;
            let line = self.line()?;
            let answer = match (line.is_empty(), default) {
                (true, Some(default)) => default.clone(),
                (true, None) => {
                    self.say("an answer is needed\n")?;
                    continue;
                }
                (false, _) => line,
            };
            match parse(&answer) {
                Ok(value) => return Ok(value),
                Err(e) => self.say(&format!("{e}\n"))?,
            }
        }
    }

    /// Asks for consent; only `yes` is one. Nobody consents to nothing.
    pub(crate) fn consents(&mut self, text: &str) -> Result<bool> {
        if self.streams.is_none() {
            return Ok(false);
        }
        self.say(&format!("{text} (yes or no) [no]? "))?;
        Ok(self.line()?.eq_ignore_ascii_case("yes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Result<u32, String> {
        text.parse().map_err(|_| format!("{text:?} is no number"))
    }

    fn question(default: Option<&str>) -> Question<'static> {
        Question {
            flag: "--number",
            text: "How many",
            default: default.map(str::to_owned),
        }
    }

    #[test]
    fn a_bad_answer_is_asked_for_again() {
        let mut input = &b"\nmany\n3\n"[..];
        let mut output = Vec::new();
        let mut d = Dialogue::with(&mut input, &mut output);
        assert_eq!(d.ask(&question(None), number).expect("an answer"), 3);
        let text = String::from_utf8(output).expect("text");
        assert_eq!(
            text,
            "How many? an answer is needed\nHow many? \"many\" is no number\nHow many? "
        );
    }

    #[test]
    fn an_empty_line_is_the_default_and_the_end_is_an_error() {
        let mut input = &b"\n"[..];
        let mut output = Vec::new();
        let mut d = Dialogue::with(&mut input, &mut output);
        assert_eq!(d.ask(&question(Some("7")), number).expect("the default"), 7);
        let e = d.ask(&question(Some("7")), number).expect_err("the end");
        assert!(e.to_string().contains("nothing was changed"), "{e}");
        assert!(d.consents("Do it").is_err());
    }

    #[test]
    fn nobody_answers_with_the_default_and_consents_to_nothing() {
        let mut d = Dialogue::silent();
        assert_eq!(d.ask(&question(Some("7")), number).expect("the default"), 7);
        let e = d.ask(&question(None), number).expect_err("no answer");
        assert!(e.to_string().contains("--number"), "{e}");
        assert!(!d.consents("Do it").expect("an answer"));
    }

    #[test]
    fn only_yes_is_consent() {
        for (line, consents) in [
            ("yes\n", true),
            ("YES\n", true),
            ("y\n", false),
            ("\n", false),
        ] {
            let mut input = line.as_bytes();
            let mut output = Vec::new();
            let mut d = Dialogue::with(&mut input, &mut output);
            assert_eq!(
                d.consents("Do it").expect("an answer"),
                consents,
                "{line:?}"
            );
        }
    }

    #[test]
    fn escapes_are_shown_harmlessly() {
        let mut input = &b""[..];
        let mut output = Vec::new();
        let mut d = Dialogue::with(&mut input, &mut output);
        d.say("model \u{1b}[31mred\n").expect("shown");
        assert_eq!(output, b"model \\u{1b}[31mred\n");
    }
}
