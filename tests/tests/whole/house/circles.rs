//! Which file imports which, as the sources say.
//!
//! A name that a module passes on by `pub use` counts for the file that defines it. A module and its submodules are one
//! room: what a file takes from the modules that it lies in is no import.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{ItemMod, ItemUse, Macro, UseTree, Visibility};

/// A module of a crate: the names from the root of the crate down to it.
pub(crate) type Module = Vec<String>;

/// The names of a path in a source.
type Names = Vec<String>;

/// What a file says of other files.
#[derive(Debug, Default)]
struct Mentions {
    paths: Vec<Names>,
    /// What it passes on: the name, and where that is from.
    reexports: Vec<(String, Names)>,
}

impl Mentions {
    fn of(source: &str) -> Mentions {
        let mut mentions = Mentions::default();
        mentions.visit_file(&syn::parse_file(source).expect("Rust"));
        mentions
    }

    fn add_use(&mut self, tree: &UseTree, mut before: Names, is_private: bool) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.add_use(&path.tree, before, is_private);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_use(tree, before.clone(), is_private);
                }
            }
            UseTree::Name(name) => {
                if name.ident != "self" {
                    before.push(name.ident.to_string());
                }
                self.add(before, None, is_private);
            }
            UseTree::Rename(rename) => {
                before.push(rename.ident.to_string());
                self.add(before, Some(rename.rename.to_string()), is_private);
            }
            UseTree::Glob(_) => self.add(before, None, is_private),
        }
    }

    fn add(&mut self, path: Names, name: Option<String>, is_private: bool) {
        if is_private {
            self.paths.push(path);
        } else {
            let name = name.or_else(|| path.last().cloned());
            self.reexports.push((name.expect("a path has names"), path));
        }
    }
}

impl<'ast> Visit<'ast> for Mentions {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_private = matches!(item.vis, Visibility::Inherited);
        self.add_use(&item.tree, Vec::new(), is_private);
    }

    /// Modules inside a file are its tests.
    fn visit_item_mod(&mut self, _: &'ast ItemMod) {}

    /// `pub(in …)` is no import.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string());
        self.paths.push(names.collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        let text = item.tokens.to_string().replace(" :: ", "::");
        let outside_strings = text.split('"').step_by(2);
        let words = outside_strings
            .flat_map(|text| text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':'));
        let paths = words.filter(|word| word.contains("::"));
        let names = paths.map(|path| path.split("::").map(str::to_owned).collect());
        self.paths.extend(names);
    }
}

/// Which module of a crate takes what from which other one, its sources being `sources`.
pub(crate) fn imports(
    sources: &BTreeMap<Module, String>,
) -> BTreeMap<Module, BTreeMap<Module, BTreeSet<String>>> {
    let mentions: BTreeMap<&Module, Mentions> = sources
        .iter()
        .map(|(module, source)| (module, Mentions::of(source)))
        .collect();
    let mut imports: BTreeMap<Module, BTreeMap<Module, BTreeSet<String>>> = BTreeMap::new();
    for (module, said) in &mentions {
        let found = imports.entry((*module).clone()).or_default();
        for path in &said.paths {
            let Some((target, names)) = resolve(&mentions, module, path) else {
                continue;
            };
            if !module.starts_with(&target) {
                found.entry(target).or_default().insert(names.join("::"));
            }
        }
    }
    imports
}

/// The module that defines what `path` in `module` stands for, and the rest of the path; none if it is of another
/// crate.
fn resolve(
    mentions: &BTreeMap<&Module, Mentions>,
    module: &Module,
    path: &[String],
) -> Option<(Module, Names)> {
    let mut place = module.clone();
    let mut rest = path;
    match rest.first()?.as_str() {
        "crate" => (place, rest) = (Vec::new(), &rest[1..]),
        "self" | "super" => {}
        child => {
            place.push(child.to_owned());
            if !mentions.contains_key(&place) {
                return None;
            }
            rest = &rest[1..];
        }
    }
    while let Some(name) = rest.first() {
        match name.as_str() {
            "self" => {}
            "super" => {
                place.pop();
            }
            name => {
                place.push(name.to_owned());
                if !mentions.contains_key(&place) {
                    place.pop();
                    break;
                }
            }
        }
        rest = &rest[1..];
    }
    if let Some(name) = rest.first()
        && let Some((_, from)) = mentions[&place].reexports.iter().find(|it| it.0 == *name)
        && let Some((target, names)) = resolve(mentions, &place, from)
        && target != place
    {
        return Some((target, [&names[..], &rest[1..]].concat()));
    }
    Some((place, rest.to_vec()))
}

/// Those of the imports that lie on circles, or between circles.
pub(crate) fn circles(
    mut imports: BTreeMap<Module, BTreeMap<Module, BTreeSet<String>>>,
) -> BTreeMap<Module, BTreeMap<Module, BTreeSet<String>>> {
    loop {
        let before = imports.len();
        let taken: BTreeSet<Module> = imports.values().flat_map(BTreeMap::keys).cloned().collect();
        imports.retain(|module, targets| !targets.is_empty() && taken.contains(module));
        let left: BTreeSet<Module> = imports.keys().cloned().collect();
        for targets in imports.values_mut() {
            targets.retain(|target, _| left.contains(target));
        }
        if imports.len() == before {
            return imports;
        }
    }
}

#[test]
fn a_circle_is_found() {
    let sources = |files: &[(&str, &str)]| -> BTreeMap<Module, String> {
        let module = |name: &str| -> Module {
            let names = name.split('/').filter(|name| !name.is_empty());
            names.map(str::to_owned).collect()
        };
        let files = files.iter();
        files
            .map(|(name, source)| (module(name), (*source).to_owned()))
            .collect()
    };
    let count = |files: &[(&str, &str)]| circles(imports(&sources(files))).len();
    let root = ("", "mod a; mod b; pub use a::A; pub use b::B;");
    for (a, b, expected) in [
        ("pub struct A;", "use crate::A; pub struct B(A);", 0),
        (
            "use crate::b::B; pub struct A(B);",
            "pub struct B(crate::a::A);",
            2,
        ),
        (
            "use super::B; pub struct A(B);",
            "use super::{A, C}; pub struct B(A);",
            2,
        ),
        (
            "fn a() { println!(\"{}\", super::b::f()) }",
            "fn f() { crate::a::g::<u32>() }",
            2,
        ),
        ("mod tests { use crate::b::B; }", "use crate::a::A;", 0),
        ("pub(crate) use crate::b::B;", "use crate::a::A;", 0),
    ] {
        assert_eq!(count(&[root, ("a", a), ("b", b)]), expected, "{a} {b}");
    }
    // A file may use what its parent has, but not what its parent's neighbour has that uses it.
    let inner = ("a/i", "use super::A; use crate::b::B;");
    let outer = ("a", "mod i; use self::i::I; pub struct A;");
    assert_eq!(count(&[root, outer, inner, ("b", "")]), 0);
    assert_eq!(count(&[root, outer, inner, ("b", "use crate::A;")]), 3);
}
