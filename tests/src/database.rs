//! A database per test, cloned from a template that is migrated once a run.

use std::{path::PathBuf, time::Duration};
use tokio::sync::OnceCell;
use tokio_postgres::NoTls;
use turnwright_kit::config::Env;
use turnwright_servers::{Binaries, Postgres, PostgresOptions, Search};

/// Names the cluster that `bin/test` started for the whole run.
pub const CLUSTER_URL: &str = "TURNWRIGHT_TEST_DATABASE_URL";
static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();

struct Cluster {
    url: String,
    template: String,
    /// When no run gave one; ends with the process.
    _own: Option<(Postgres, tempfile::TempDir)>,
}

/// Where the servers' programs are.
///
/// # Panics
/// When they are nowhere; the message says what to run.
#[must_use]
pub fn binaries() -> Binaries {
    let env = Env::process();
    let search = Search {
        path: env.get("PATH").map(Into::into),
        tools_dir: env.get("TURNWRIGHT_TOOLS_DIR").map(PathBuf::from).or_else(|| {
            Some(crate::programs::repository().join(".tools/venv")).filter(|p| p.is_dir())
        }),
        ..Search::default()
    };
    Binaries::locate(&search).unwrap_or_else(|e| panic!("{e}"))
}

async fn cluster() -> &'static Cluster {
    CLUSTER
        .get_or_init(|| async {
            let env = Env::process();
            let (url, own) = match env.get(CLUSTER_URL).or_else(|| env.get("DATABASE_URL")) {
                Some(url) => (url.to_owned(), None),
                None => {
                    let folder = tempfile::tempdir().expect("temporary folder");
                    let options = PostgresOptions::throw_away(folder.path());
                    let server = Postgres::start(&binaries(), options)
                        .await
                        .unwrap_or_else(|e| panic!("{e}"));
                    (server.url(), Some((server, folder)))
                }
            };
            let template = template(&url).await;
            Cluster { url, template, _own: own }
        })
        .await
}

/// A connection whose task ends with it.
///
/// # Panics
/// When PostgreSQL refuses it.
pub async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("connect");
    #[expect(clippy::disallowed_methods, reason = "ends when its client is dropped")]
    tokio::spawn(connection);
    client
}

fn named(url: &str, database: &str, role: Option<&str>) -> String {
    let base = url.split('?').next().unwrap_or(url);
    let (server, _) = base.rsplit_once('/').expect("the URL names a database");
    let options = role.map(|r| format!("?options=-c%20role%3D{r}")).unwrap_or_default();
    format!("{server}/{database}{options}")
}

/// Names the template after the migrations it holds, so that a cluster that outlives a run never
/// serves an older one.
fn template_name() -> String {
    let root = crate::programs::repository().join("migrations");
    let mut texts = Vec::new();
    for schema in ["control", "gateway"] {
        let files = std::fs::read_dir(root.join(schema)).expect("migrations");
        texts.extend(files.map(|f| std::fs::read(f.expect("entry").path()).expect("migration")));
    }
    texts.sort_unstable();
    let digest = turnwright_types::Sha256::of(texts.concat()).to_string();
    format!("turnwright_template_{}", &digest[..16])
}

/// Makes the template unless another process of the run did; concurrent ones wait.
async fn template(url: &str) -> String {
    let name = template_name();
    let admin = connect(url).await;
    admin.execute("select pg_advisory_lock(720854)", &[]).await.expect("lock");
    let sql = "select 1 from pg_database where datname = $1 and datistemplate";
    if admin.query_opt(sql, &[&name]).await.expect("look for the template").is_none() {
        admin.batch_execute(&format!("drop database if exists {name}")).await.expect("drop");
        admin.batch_execute(&format!("create database {name}")).await.expect("create");
        let owner = named(url, &name, None);
        turnwright_control_store::migrate(&owner).await.expect("migrate control");
        turnwright_gateway_store::migrate(&owner).await.expect("migrate gateway");
        let mark = format!("alter database {name} is_template true");
        admin.batch_execute(&mark).await.expect("mark the template");
    }
    admin.execute("select pg_advisory_unlock(720854)", &[]).await.expect("unlock");
    name
}

/// A test's own database.
#[derive(Debug)]
pub struct TestDatabase {
    url: String,
    name: String,
}

impl TestDatabase {
    /// Clones the template.
    ///
    /// # Panics
    /// When PostgreSQL cannot be started or reached.
    pub async fn new() -> Self {
        let cluster = cluster().await;
        let name = format!("t_{}", uuid::Uuid::now_v7().simple());
        let admin = connect(&cluster.url).await;
        // Two clones of one template at once may meet; the second waits and tries again.
        crate::eventually("a database is cloned", Duration::from_secs(30), || async {
            let sql = format!("create database {name} template {}", cluster.template);
            admin.batch_execute(&sql).await.map_err(|e| format!("{e:?}"))
        })
        .await;
        Self { url: cluster.url.clone(), name }
    }

    /// As its owner.
    #[must_use]
    pub fn owner_url(&self) -> String {
        named(&self.url, &self.name, None)
    }

    /// With the rights of a group role.
    #[must_use]
    pub fn role_url(&self, role: &str) -> String {
        named(&self.url, &self.name, Some(role))
    }

    /// A connection as the owner.
    pub async fn owner(&self) -> tokio_postgres::Client {
        connect(&self.owner_url()).await
    }

    /// Drops the database and every session in it.
    ///
    /// # Panics
    /// When PostgreSQL refuses.
    pub async fn drop(self) {
        let admin = connect(&self.url).await;
        let sql = format!("drop database {} with (force)", self.name);
        admin.batch_execute(&sql).await.expect("drop database");
    }
}
