//! `multicard methods`: a methods paragraph from a session's records.

use std::path::PathBuf;

use clap::Args;

use super::material::Material;
use super::study::StudyArguments;
use super::{OK, Outcome, print, session_folder};
use crate::figure;

#[derive(Args)]
pub(super) struct Arguments {
    /// Session folder, or the name of a session in the default folder.
    session: PathBuf,
    #[command(flatten)]
    study: StudyArguments,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let folder = session_folder(&arguments.session)?;
    let study = arguments.study.study(&folder)?;
    let material = Material::read(&folder)?;
    arguments.study.check(&material)?;
    print(&figure::methods(&material.sources(), &study, std::slice::from_ref(&material.origin)))?;
    Ok(OK)
}
