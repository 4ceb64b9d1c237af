//! The manifests and units in `deploy/`, by the tools that others check them with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{PROGRAM, copy};
use chomp_testing::needs;

/// The versions of Kubernetes whose schemas the manifests have to fit.
const VERSIONS: [&str; 3] = ["1.35", "1.36", "1.37"];

fn deploy(name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap().join("deploy").join(name)
}

/// Runs a command that must succeed; returns its standard output and standard error.
fn printed(command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{command:?}: {stdout}{stderr}");
    stdout + &stderr
}

/// Checks manifests against the schemas of all versions, where no field may be unknown. None where there is nothing to
/// check with.
fn validate(manifests: &[PathBuf]) -> Option<()> {
    let program = std::env::var("CHOMP_KUBERNETES_VALIDATE");
    let program = program.map_err(|_| "CHOMP_KUBERNETES_VALIDATE names no program".to_owned());
    let program = needs::found("KUBERNETES", program)?;
    for version in VERSIONS {
        let mut validate = Command::new(&program);
        let said = printed(validate.args(["--strict", "-k", version]).args(manifests));
        let passed = said.matches(" passed for resource ").count();
        assert!(passed >= manifests.len(), "{version}: {said}");
    }
    Some(())
}

#[test]
fn manifests_fit_three_versions_of_kubernetes() {
    let manifests = ["namespace", "coordinator", "worker"];
    validate(&manifests.map(|name| deploy(&format!("kubernetes/{name}.yaml"))));
}

/// The output of kustomize fits too, with all components.
#[test]
fn manifests_with_their_components_fit_too() {
    let mut kubectl = Command::new("kubectl");
    let kustomize = needs::can("kubectl kustomize", kubectl.args(["kustomize", "--help"]));
    if needs::found("KUSTOMIZE", kustomize).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let with = |components: &str| {
        let kustomization = folder.path().join("kubernetes/kustomization.yaml");
        copy(&deploy("kubernetes"), &folder.path().join("kubernetes"));
        let text = fs::read_to_string(&kustomization).unwrap();
        let text = format!("{text}components: [{components}]\n");
        fs::write(&kustomization, text).unwrap();
        let mut kustomize = Command::new("kubectl");
        kustomize.arg("kustomize");
        printed(kustomize.arg(kustomization.parent().unwrap()))
    };
    let [plain, bucket] = ["", "components/bucket"].map(with);
    assert!(!plain.contains("CHOMP_COORDINATOR_STORE"));
    assert!(bucket.contains("CHOMP_COORDINATOR_STORE") && !bucket.contains("chomp-serve"));
    assert!(with("components/monitor").contains("kind: ServiceMonitor"));
    for (name, text) in [("plain", plain), ("bucket", bucket)] {
        let file = folder.path().join(format!("{name}.yaml"));
        fs::write(&file, text).unwrap();
        validate(&[file]);
    }
}

#[test]
fn units_are_what_systemd_takes() {
    let mut analyze = Command::new("systemd-analyze");
    let there = needs::can("systemd-analyze", analyze.arg("--version"));
    if needs::found("SYSTEMD", there).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut verify = Command::new("systemd-analyze");
    verify.arg("verify");
    for name in ["coordinator", "worker", "serve"] {
        let name = format!("chomp-{name}.service");
        let unit = fs::read_to_string(deploy("systemd").join(&name)).unwrap();
        let installed = unit.replace("/usr/bin/chomp", PROGRAM);
        assert_ne!(installed, unit);
        let file = folder.path().join(name);
        fs::write(&file, installed).unwrap();
        verify.arg(file);
    }
    // It tells of unknown settings, and ends well all the same.
    assert_eq!(printed(&mut verify), "");
}
