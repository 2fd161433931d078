// trace_processor.js - SQL on a trace by Perfetto's own trace processor (WebAssembly), under node, without a browser.
//
//     node trace_processor.js FOLDER TRACE QUERY...
//
// FOLDER holds engine_bundle.js and trace_processor.wasm. Prints one line of JSON a query: {"columns", "rows"}; exits 1
// with a sentence where the trace or a query is refused. The engine is a web worker that speaks length-delimited
// protobuf (TraceProcessorRpcStream) over a message port: what a worker has around it is put up below, then the few
// messages that are needed are written by hand.
"use strict";
const fs = require("fs");
const path = require("path");

const [folder, trace, ...queries] = process.argv.slice(2);
const fileOf = (url) => fs.readFileSync(path.join(folder, path.basename(String(url))));

// ---- the worker's surroundings

globalThis.XMLHttpRequest = class {
	open(_method, url) {
		this.url = url;
	}
	send() {
		const bytes = fileOf(this.url);
		this.status = 200;
		this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
		if (this.onload) this.onload();
	}
};
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = function () {};
globalThis.importScripts = () => {};
globalThis.fetch = async (url) => new Response(fileOf(url), { headers: { "Content-Type": "application/wasm" } });
Object.defineProperty(globalThis, "location", {
	value: { href: "http://localhost/engine_bundle.js", pathname: "/engine_bundle.js" },
	configurable: true,
});

function loadEngine() {
	const node = globalThis.process;
	const source = fileOf("engine_bundle.js").toString();
	// Where it sees `process` it takes itself for a program of node's and looks for files in other ways.
	Object.defineProperty(globalThis, "process", { value: undefined, configurable: true, writable: true });
	try {
		(0, eval)(source);
	} finally {
		Object.defineProperty(globalThis, "process", { value: node, configurable: true, writable: true });
	}
}

// ---- protobuf, as far as it is needed

function varint(value) {
	const bytes = [];
	for (let rest = BigInt(value); ; rest >>= 7n) {
		if (rest < 128n) {
			bytes.push(Number(rest));
			return Buffer.from(bytes);
		}
		bytes.push(Number(rest & 127n) | 128);
	}
}
const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint(field * 8 + 2), varint(value.length), value]);

class Reader {
	constructor(buffer) {
		this.buffer = buffer;
		this.at = 0;
	}
	varint() {
		let value = 0n;
		for (let shift = 0n; ; shift += 7n) {
			const byte = this.buffer[this.at++];
			value |= BigInt(byte & 127) << shift;
			if (byte < 128) return value;
		}
	}
	take(length) {
		const part = this.buffer.subarray(this.at, this.at + length);
		this.at += length;
		return part;
	}
	// All fields as [number, value]; a value is a BigInt or its bytes.
	fields() {
		const found = [];
		while (this.at < this.buffer.length) {
			const tag = Number(this.varint());
			const wire = tag & 7;
			if (wire === 0) found.push([tag >> 3, this.varint()]);
			else if (wire === 1) found.push([tag >> 3, this.take(8)]);
			else if (wire === 2) found.push([tag >> 3, this.take(Number(this.varint()))]);
			else if (wire === 5) found.push([tag >> 3, this.take(4)]);
			else throw new Error("wire type " + wire);
		}
		return found;
	}
	varints() {
		const found = [];
		while (this.at < this.buffer.length) found.push(this.varint());
		return found;
	}
}
const fields = (buffer) => new Reader(buffer).fields();

// ---- messages of trace_processor.proto

const APPEND = 1;
const FINALIZE = 2;
const QUERY = 3;
const REQUEST = 2; // fields of TraceProcessorRpc
const RESPONSE = 3;
const FATAL = 5;
const APPEND_DATA = 101;
const QUERY_ARGS = 103;
const APPEND_RESULT = 201;
const QUERY_RESULT = 203;
const BLOCK = 16 << 20;

const { port1: port, port2: engine } = new MessageChannel();
let received = Buffer.alloc(0);
let take = null;

port.on("message", (data) => {
	received = Buffer.concat([received, Buffer.from(data)]);
	for (;;) {
		const reader = new Reader(received);
		let end = 0;
		while (end < received.length && (end === 0 || received[end] >= 128)) end++;
		if (end >= received.length) return;
		reader.at = 1; // the stream's own tag
		const length = Number(reader.varint());
		if (received.length < reader.at + length) return;
		const message = reader.take(length);
		received = received.subarray(reader.at);
		const found = fields(message);
		const fatal = found.find(([field]) => field === FATAL);
		if (fatal) stop(fatal[1].toString());
		if (take) take(found);
	}
});

function stop(sentence) {
	console.error(sentence);
	process.exit(1);
}

let sequence = 0;
// Sends one request and waits until `done(fields)` of one of the answers.
function ask(kind, rest, done) {
	const body = Buffer.concat([number(1, ++sequence), number(REQUEST, kind), rest]);
	return new Promise((resolve) => {
		take = (found) => {
			if (!done(found)) return;
			take = null;
			resolve();
		};
		port.postMessage(new Uint8Array(bytes(1, body)));
	});
}

function errorOf(result, field) {
	const found = fields(result).find(([f]) => f === field);
	return found ? found[1].toString() : "";
}

// Cells of one batch, appended to `row` and `rows`.
function takeBatch(batch, table) {
	let kinds = [];
	let integers = [];
	const doubles = [];
	let texts = [];
	let last = false;
	for (const [field, value] of fields(batch)) {
		if (field === 1) kinds = kinds.concat(typeof value === "bigint" ? [value] : new Reader(value).varints());
		else if (field === 2) integers = integers.concat(typeof value === "bigint" ? [value] : new Reader(value).varints());
		else if (field === 3) for (let at = 0; at < value.length; at += 8) doubles.push(value.readDoubleLE(at));
		else if (field === 5) texts = value.toString().split("\0");
		else if (field === 6) last = Boolean(value);
	}
	for (const kind of kinds) {
		if (kind === 2n) table.row.push(Number(BigInt.asIntN(64, integers.shift())));
		else if (kind === 3n) table.row.push(doubles.shift());
		else if (kind === 4n) table.row.push(texts.shift());
		else table.row.push(null);
		if (table.row.length === table.columns.length) {
			table.rows.push(table.row);
			table.row = [];
		}
	}
	return last;
}

async function query(sql) {
	const table = { columns: [], rows: [], row: [] };
	await ask(QUERY, bytes(QUERY_ARGS, bytes(1, Buffer.from(sql))), (found) => {
		for (const [kind, result] of found) {
			if (kind !== QUERY_RESULT) continue;
			const failed = errorOf(result, 2);
			if (failed) stop(sql + ": " + failed);
			let last = false;
			for (const [field, value] of fields(result))
				if (field === 1) table.columns.push(value.toString());
				else if (field === 3) last = takeBatch(value, table) || last;
			return last;
		}
		return false;
	});
	// Not by console.log: what it has not written yet is gone when the process exits.
	const line = Buffer.from(JSON.stringify({ columns: table.columns, rows: table.rows }) + "\n");
	for (let at = 0; at < line.length;) at += fs.writeSync(1, line, at);
}

async function main() {
	loadEngine();
	self.onmessage({ data: engine });
	const data = fs.readFileSync(trace);
	for (let at = 0; at < data.length; at += BLOCK)
		await ask(APPEND, bytes(APPEND_DATA, data.subarray(at, at + BLOCK)), (found) => {
			for (const [kind, result] of found)
				if (kind === APPEND_RESULT) {
					const failed = errorOf(result, 2);
					if (failed) stop(failed);
				}
			return found.some(([kind]) => kind === RESPONSE);
		});
	await ask(FINALIZE, Buffer.alloc(0), (found) => found.some(([kind]) => kind === RESPONSE));
	for (const sql of queries) await query(sql);
	process.exit(0);
}

main().catch((error) => stop(String(error.stack || error)));
