// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command of `weir netns`: makes, names and deletes many namespaces in one request.
//!
//! A name is what `ip netns add` makes, so either program lists and deletes the other's namespaces. A request is
//! done as a whole or not at all.

use serde_json::{Value, json};

use super::{Engine, from_stack};

/// The longest name in bytes (`NAME_MAX`).
const NAME_MAX: usize = 255;

/// Executes the command. `do` is `add`, `find`, `del` or `directory`.
pub fn run(engine: &Engine, command: &Value) -> Result<Value, String> {
    match command["do"].as_str() {
        Some("add") => add(engine, &names(command)?),
        Some("find") => find(engine, &names(command)?),
        Some("del") => del(engine, &names(command)?),
        Some("directory") => Ok(json!({ "path": engine.runtime.names() })),
        _ => Err(format!("unknown command {command}")),
    }
}

/// Returns the name with a number in place of `%d`.
pub fn numbered(pattern: &str, number: u64) -> String {
    pattern.replacen("%d", &number.to_string(), 1)
}

/// Returns the names that a command is about: those of `names`, or `pattern` with each number from `from` until
/// `until`.
fn names(command: &Value) -> Result<Vec<String>, String> {
    let wrong = || format!("unknown command {command}");
    if let Some(pattern) = command["pattern"].as_str() {
        let (from, until) = (command["from"].as_u64(), command["until"].as_u64());
        let numbers = from.zip(until).ok_or_else(wrong)?;
        return Ok((numbers.0..numbers.1)
            .map(|number| numbered(pattern, number))
            .collect());
    }
    let names = command["names"].as_array().ok_or_else(wrong)?;
    let text = |name: &Value| name.as_str().map(str::to_owned).ok_or_else(wrong);
    names.iter().map(text).collect()
}

/// Checks the form of a name.
pub fn check(name: &str) -> Result<(), String> {
    let ok = (1..=NAME_MAX).contains(&name.len())
        && !name.contains(['/', '\0'])
        && !matches!(name, "." | "..");
    ok.then_some(()).ok_or_else(|| {
        format!(
            "invalid name {name:?}: a name has 1 to {NAME_MAX} bytes, no slash, and is not . or .."
        )
    })
}

fn add(engine: &Engine, names: &[String]) -> Result<Value, String> {
    names.iter().try_for_each(|name| check(name))?;
    for (made, name) in names.iter().enumerate() {
        let ns = engine.stack.add_namespace();
        if let Err(error) = engine.runtime.add_name(name, from_stack(ns)) {
            engine.stack.remove_namespace(ns);
            engine.runtime.remove_namespace(from_stack(ns));
            for name in &names[..made] {
                remove(engine, name)?;
            }
            return Err(match error.0 {
                libc::EEXIST => format!("there is already a namespace {name}"),
                _ => format!("namespace {name}: {error}"),
            });
        }
    }
    Ok(Value::Null)
}

fn find(engine: &Engine, names: &[String]) -> Result<Value, String> {
    for name in names {
        check(name)?;
        if !engine.runtime.has_name(name) {
            return Err(missing(name));
        }
    }
    Ok(Value::Null)
}

/// Removes names, and the namespaces that nothing else refers to.
fn del(engine: &Engine, names: &[String]) -> Result<Value, String> {
    find(engine, names)?;
    for name in names {
        // Somebody else may have removed one of many in the meantime.
        if !remove(engine, name)? && names.len() == 1 {
            return Err(missing(name));
        }
    }
    Ok(Value::Null)
}

fn missing(name: &str) -> String {
    format!("there is no namespace {name}")
}

/// Removes a name, and its namespace if nothing else refers to it. Returns whether the name was there.
fn remove(engine: &Engine, name: &str) -> Result<bool, String> {
    match engine.runtime.remove_name(name) {
        Ok(Some(ns)) => engine.reap(ns),
        Ok(None) => {}
        Err(error) if error.0 == libc::ENOENT => return Ok(false),
        Err(error) => return Err(format!("namespace {name}: {error}")),
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
