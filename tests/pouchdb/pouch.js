// PouchDB with an HTTP and a memory adapter, for the programs of this folder.
const PouchDB = require("pouchdb-core");
PouchDB.plugin(require("pouchdb-adapter-http")).plugin(require("pouchdb-adapter-memory")).plugin(require("pouchdb-replication"));
module.exports = PouchDB;
