//! Streams of the Redis protocol, patterns and numbers.
//!
//! The files of the server are compiled here alone: the server itself depends on many libraries.

#[allow(dead_code)]
#[path = "../../crates/firndb-server/src/redis/codec.rs"]
mod codec;
#[allow(dead_code)]
#[path = "../../crates/firndb-server/src/redis/float.rs"]
mod float;
#[path = "../../crates/firndb-server/src/redis/glob.rs"]
mod glob;
#[path = "../../crates/firndb-server/src/redis/number.rs"]
mod number;

use codec::{Limits, Parser};
use float::{Float, Parsed};

const LIMITS: Limits = Limits {
    command_bytes: 4096,
    argument_bytes: 1024,
    arguments: 64,
    commands: 16,
    is_unauthenticated: false,
};

/// A stream gives the same commands and the same error wherever it is cut. The first byte is the
/// length of the pieces.
pub fn run(data: &[u8]) {
    let Some((&length, stream)) = data.split_first() else { return };
    let whole = parse(stream, stream.len().max(1));
    let pieces = parse(stream, usize::from(length).max(1));
    assert_eq!(whole, pieces);
    for arguments in &whole.0 {
        let [first, second, ..] = &arguments[..] else { continue };
        // Patterns are bounded by the limits of keys and arguments.
        glob::matches(first, second);
        number::integer(first);
        if let (Some(Parsed::Finite(a)), Some(Parsed::Finite(b))) =
            (Float::parse(first), Float::parse(second))
        {
            let text = a.plus(b).map(Float::text);
            assert!(text.is_none_or(|text| Float::parse(text.as_bytes()).is_some()));
        }
    }
}

type Commands = Vec<Vec<Vec<u8>>>;

/// The commands of a stream that arrives in pieces, and the error.
fn parse(stream: &[u8], length: usize) -> (Commands, Option<String>) {
    let (mut parser, mut buffer, mut commands) = (Parser::default(), Vec::new(), Vec::new());
    for piece in stream.chunks(length) {
        buffer.extend_from_slice(piece);
        loop {
            let result = parser.parse(&buffer, &LIMITS);
            let count = parser.count();
            for n in 0..count {
                commands.push(parser.args(n, &buffer).from(0).map(<[u8]>::to_vec).collect());
            }
            let consumed = parser.clear();
            buffer.drain(..consumed);
            match result {
                Err(error) => return (commands, Some(error.to_string())),
                Ok(()) if count < LIMITS.commands => break,
                Ok(()) => {}
            }
        }
    }
    (commands, None)
}
