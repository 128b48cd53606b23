//! Errors of the library as Java exceptions: `Native.exception` makes them, with a class per kind.

use crate::handle::Refused;
use firndb::Error;
use jni::errors::Error as JniError;
use jni::objects::{JClass, JThrowable, JValue};
use jni::refs::Weak;
use jni::{Env, jni_sig, jni_str};
use std::any::Any;
use std::sync::OnceLock;

/// The result of a native method.
pub type Result<T> = std::result::Result<T, Failure>;

/// Why a native method fails.
pub enum Failure {
    /// An error of the library.
    Library(Error),
    /// The handle cannot be used.
    Handle(Refused),
    /// A call of the JVM failed.
    Jvm(JniError),
    /// An exception is pending already: of a callback, or of a call of the JVM.
    Pending,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Library(error)
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        Failure::Handle(refused)
    }
}

impl From<JniError> for Failure {
    fn from(error: JniError) -> Failure {
        match error {
            JniError::JavaException => Failure::Pending,
            other => Failure::Jvm(other),
        }
    }
}

/// The class `Native`, in the package that it was relocated to. The reference is weak, so that the
/// class loader can be collected. The class exists while a native method runs.
static NATIVE: OnceLock<Weak<JClass<'static>>> = OnceLock::new();

/// Remembers the class that makes exceptions.
pub fn set_class(class: Weak<JClass<'static>>) {
    let _ = NATIVE.set(class);
}

/// What `Native.exception` gets in place of the number of an [`firndb::ErrorKind`].
const CLOSED: i32 = -1;
const INTERNAL: i32 = -2;

/// Throws the exception for a failure. If even that fails, an exception of the JVM is pending.
pub fn throw(env: &mut Env<'_>, failure: &Failure) {
    if env.exception_check() {
        return;
    }
    let thrown = match failure {
        Failure::Pending => return,
        Failure::Library(error) => throw_error(env, error),
        Failure::Handle(Refused::Closed(what)) => {
            throw_as(env, CLOSED, &format!("the {what} is closed"), None, -1)
        }
        Failure::Handle(Refused::InCallback) => {
            throw_as(env, CLOSED, "a callback cannot close what calls it", None, -1)
        }
        Failure::Handle(Refused::Full) => {
            throw_as(env, INTERNAL, "there are too many open objects", None, -1)
        }
        // A null of Java in place of an object.
        Failure::Jvm(JniError::NullPtr(_)) => env
            .throw_new(jni_str!("java/lang/NullPointerException"), jni_str!("an argument is null")),
        Failure::Jvm(error) => throw_as(env, INTERNAL, &error.to_string(), None, -1),
    };
    if thrown.is_err() && !env.exception_check() {
        let _ = env.throw_new(jni_str!("java/lang/InternalError"), jni_str!("cannot throw"));
    }
}

/// Throws the exception for a panic.
pub fn throw_panic(env: &mut Env<'_>, payload: &(dyn Any + Send)) {
    if env.exception_check() {
        return;
    }
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let message = format!("panic: {}", text.unwrap_or("no message"));
    if throw_as(env, INTERNAL, &message, None, -1).is_err() && !env.exception_check() {
        let _ = env.throw_new(jni_str!("java/lang/InternalError"), jni_str!("panic"));
    }
}

fn throw_error(env: &mut Env<'_>, error: &Error) -> jni::errors::Result<()> {
    let offset = error.offset().map_or(-1, |offset| i64::try_from(offset).unwrap_or(i64::MAX));
    let path = error.file().map(|file| file.to_string_lossy());
    let kind = i32::from(error.kind().exit_code());
    throw_as(env, kind, &error.to_string(), path.as_deref(), offset)
}

/// Throws what `Native.exception` makes of these arguments.
fn throw_as(
    env: &mut Env<'_>,
    kind: i32,
    message: &str,
    path: Option<&str>,
    offset: i64,
) -> jni::errors::Result<()> {
    let class = NATIVE.get().map(|class| class.upgrade_local(env)).transpose()?.flatten();
    let class = class.ok_or(JniError::NullPtr("the class Native"))?;
    let message = env.new_string(message)?;
    let path = path.map(|path| env.new_string(path)).transpose()?.unwrap_or_default();
    let made = env.call_static_method(
        class,
        jni_str!("exception"),
        jni_sig!("(ILjava/lang/String;Ljava/lang/String;J)Ljava/lang/RuntimeException;"),
        &[JValue::Int(kind), (&message).into(), (&path).into(), JValue::Long(offset)],
    )?;
    let throwable = env.cast_local::<JThrowable>(made.l()?)?;
    env.throw(throwable)
}
