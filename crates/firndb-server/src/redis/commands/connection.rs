//! The connection: HELLO, AUTH, SELECT, CLIENT and others.

use super::{Fail, Outcome, text};
use crate::redis::codec::Args;
use crate::redis::number::integer;
use crate::redis::reply::Out;
use crate::redis::session::{Context, Replies, Session};
use crate::redis::unit::Unit;

/// The version of Redis whose behaviour clients can expect.
pub const VERSION: &str = "7.0.15";

/// PING [message]
pub fn ping<'a>(_: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    match args.count() {
        1 => out.simple("PONG"),
        2 => out.bulk(args.at(1)),
        _ => return Err(Fail::arity("ping")),
    }
    Ok(())
}

/// ECHO message
pub fn echo<'a>(_: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    out.bulk(args.at(1));
    Ok(())
}

/// QUIT
pub fn quit(session: &mut Session, _: &Context<'_>, _: Args<'_>, out: &mut Out) -> Outcome {
    out.ok();
    session.close();
    Ok(())
}

/// RESET
pub fn reset(session: &mut Session, context: &Context<'_>, _: Args<'_>, out: &mut Out) -> Outcome {
    session.reset(context);
    out.is_resp3 = false;
    out.simple("RESET");
    Ok(())
}

/// SELECT index
pub fn select(
    session: &mut Session,
    context: &Context<'_>,
    args: Args<'_>,
    out: &mut Out,
) -> Outcome {
    let index = super::strings::int(args.at(1))?;
    let index = usize::try_from(index).ok().filter(|n| *n < context.databases.len());
    session.select(index.ok_or_else(|| text("ERR DB index is out of range"))?);
    out.ok();
    Ok(())
}

/// AUTH [username] password
pub fn auth(
    session: &mut Session,
    context: &Context<'_>,
    args: Args<'_>,
    out: &mut Out,
) -> Outcome {
    if args.count() > 3 {
        return Err(Fail::Syntax);
    }
    if args.count() == 2 && !context.app.tokens.load().is_required() {
        return Err(text(
            "ERR AUTH <password> called without any password configured for the default user. Are \
             you sure your configuration is correct?",
        ));
    }
    // The token says who the client is; any user name will do.
    session.authenticate(context, args.at(args.count() - 1))?;
    out.ok();
    Ok(())
}

/// HELLO [protover [AUTH username password] [SETNAME clientname]]
pub fn hello(
    session: &mut Session,
    context: &Context<'_>,
    args: Args<'_>,
    out: &mut Out,
) -> Outcome {
    let mut is_resp3 = out.is_resp3;
    if args.count() > 1 {
        is_resp3 = match integer(args.at(1)) {
            Some(2) => false,
            Some(3) => true,
            Some(_) => return Err(text("NOPROTO unsupported protocol version")),
            None => return Err(text("ERR Protocol version is not an integer or out of range")),
        };
    }
    let (mut token, mut name) = (None, None);
    let mut n = 2;
    while n < args.count() {
        let left = args.count() - n - 1;
        match super::uppercase(args.at(n), &mut [0; 8]) {
            b"AUTH" if left >= 2 => {
                token = Some(args.at(n + 2));
                n += 3;
            }
            b"SETNAME" if left >= 1 => {
                name = Some(args.at(n + 1));
                n += 2;
            }
            _ => {
                let word = String::from_utf8_lossy(args.at(n)).into_owned();
                let message = format!("ERR Syntax error in HELLO option '{word}'");
                return Err(Fail::Text(message.into()));
            }
        }
    }
    match token {
        Some(token) => session.authenticate(context, token)?,
        None if session.role().is_none() => {
            return Err(text(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
                 HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client \
                 and select the RESP protocol version at the same time",
            ));
        }
        None => {}
    }
    if let Some(name) = name {
        session.set_name(name)?;
    }
    out.is_resp3 = is_resp3;
    out.map(7);
    for (key, value) in [("server", "redis"), ("version", VERSION)] {
        out.bulk(key.as_bytes());
        out.bulk(value.as_bytes());
    }
    out.bulk(b"proto");
    out.integer(if is_resp3 { 3 } else { 2 });
    out.bulk(b"id");
    out.count(session.id);
    for (key, value) in [("mode", "standalone"), ("role", "master")] {
        out.bulk(key.as_bytes());
        out.bulk(value.as_bytes());
    }
    out.bulk(b"modules");
    out.array(0);
    Ok(())
}

/// CLIENT ID | GETNAME | SETNAME name | SETINFO attribute value | INFO | LIST | REPLY mode |
/// NO-EVICT mode
pub fn client(
    session: &mut Session,
    context: &Context<'_>,
    args: Args<'_>,
    out: &mut Out,
) -> Outcome {
    let mut name = [0; 16];
    let name = super::uppercase(args.at(1), &mut name);
    let counted = |count: usize| match args.count() == count {
        true => Ok(()),
        false => {
            let name = String::from_utf8_lossy(name).to_lowercase();
            Err(Fail::arity(&format!("client|{name}")))
        }
    };
    match name {
        b"ID" => counted(2).map(|()| out.count(session.id)),
        b"GETNAME" => {
            counted(2)?;
            let name = session.name();
            out.bulk_or_null(Some(name.as_bytes()).filter(|name| !name.is_empty()));
            Ok(())
        }
        b"SETNAME" => {
            counted(3)?;
            session.set_name(args.at(2))?;
            out.ok();
            Ok(())
        }
        b"SETINFO" => {
            counted(4)?;
            session.set_info(args.at(2), args.at(3))?;
            out.ok();
            Ok(())
        }
        b"INFO" => counted(2).map(|()| out.verbatim(&session.describe(context, out.is_resp3))),
        b"REPLY" => {
            counted(3)?;
            session.replies = match super::uppercase(args.at(2), &mut [0; 8]) {
                b"ON" => Replies::All,
                b"OFF" => Replies::None,
                b"SKIP" => Replies::SkipNext,
                _ => return Err(Fail::Syntax),
            };
            if session.replies == Replies::All {
                out.ok();
            }
            Ok(())
        }
        // Nothing is evicted.
        b"NO-EVICT" => {
            counted(3)?;
            match super::uppercase(args.at(2), &mut [0; 8]) {
                b"ON" | b"OFF" => out.ok(),
                _ => return Err(Fail::Syntax),
            }
            Ok(())
        }
        _ => Err(Fail::subcommand("CLIENT", args.at(1))),
    }
}
