/** A text that tries to reach, exhaust or stall what a rule must not. */
export interface EscapeAttempt {
  readonly what: string;
  readonly text: string;
}

const javascript = [
  'constructor', 'prototype', '__proto__', '__defineGetter__', '__lookupGetter__', 'hasOwnProperty', 'valueOf', 'toLocaleString',
  'propertyIsEnumerable', 'isPrototypeOf', 'caller', 'arguments', 'callee', 'call', 'apply', 'bind',
]; // biome-ignore format: a table

const receivers: Readonly<Record<string, string>> = {
  'a string': '"a"',
  request: 'request',
  'a list': '[1]',
  'a map method': 'new HashMap()',
};

const properties: EscapeAttempt[] = Object.entries(receivers).flatMap(([name, text]) =>
  ['constructor', '__proto__', 'prototype', 'class', 'getClass'].flatMap((property) => [
    { what: `${property} of ${name}`, text: `${text}.${property}` },
    { what: `${property}() of ${name}`, text: `${text}.${property}()` },
  ]),
);

const names: EscapeAttempt[] = [
  'globalThis', 'global', 'window', 'process', 'require', 'module', 'exports', 'Function', 'eval', 'Object.constructor', 'Reflect.ownKeys("a")',
  'Proxy', 'Symbol.iterator', 'Promise', 'Buffer.from("a")', 'fetch("http://a")', 'import("fs")', 'this', 'self', 'console.log("a")', 'JSON.parse("1")',
  'Array.from("a")', 'Date.now()', 'RegExp("a")', 'undefined', 'NaN', 'setTimeout("1", 1)',
].map((text) => ({ what: `JavaScript's ${text}`, text })); // biome-ignore format: a table

const java: EscapeAttempt[] = [
  'System.exit(1)', 'System.getenv("PATH")', 'System.getProperty("user.home")', 'Runtime.getRuntime().exec("id")', 'Thread.sleep(1000)',
  'Thread.currentThread()', 'Class.forName("java.lang.System")', 'ClassLoader.getSystemClassLoader()', 'new ProcessBuilder(["id"]).start()',
  'java.lang.System.exit(1)', 'java.lang.Runtime.getRuntime()', 'new java.io.File("/etc/passwd").exists()', 'new java.net.URL("http://a").openStream()',
  'java.nio.file.Files.readString(java.nio.file.Path.of("/etc/passwd"))', 'java.net.InetAddress.getLocalHost()', 'import java.io.File; new File("/")',
  'import_static java.lang.System.exit; exit(1)', 'String.class.forName("java.lang.System")', '"a".getClass().forName("java.lang.System")',
  '"a".class.classLoader', 'request.getServletContext()', 'request.getSession()', 'request.getInputStream()', 'request.getReader()',
  'request.getClass().getClassLoader()', 'Integer.class.getMethods()', 'new javax.script.ScriptEngineManager().getEngineByName("js")',
  'java.util.ServiceLoader.load(String)', 'new Timer().schedule(null, 1)', 'java.lang.invoke.MethodHandles.lookup()', 'def f() { f() }; f()',
  'function f() { 1 }', 'with (request) { getClass() }', 'proto X { int a; }', '($ in [1, 2])', '[1].stream().map(x -> x)',
  'Arrays.asList(1).forEach(System.out::println)',
].map((text) => ({ what: text, text })); // biome-ignore format: a table

const endless: EscapeAttempt[] = [
  { what: 'while (true)', text: 'while (true) { }' },
  { what: 'do while (true)', text: 'do { 1 } while (true)' },
  { what: 'for without an end', text: 'for (;;) { }' },
  { what: 'for that never gets there', text: 'for (int i = 0; i < 10; i = i * 1) { }' },
  { what: 'a counting loop to the largest long', text: 'for (i = 0; i < Long.MAX_VALUE; i = i + 1L) { }' },
  { what: 'nested loops', text: 'foreach (a : "0123456789") { foreach (b : "0123456789") { foreach (c : "0123456789") { foreach (d : "0123456789") { foreach (f : "0123456789") { state.put("x", 1) } } } } }' },
  { what: 'a loop over a growing list', text: 'l = [1]; while (l.size() > 0) { l.add(1) }' },
  { what: 'a loop over a list that the body grows', text: 'l = [1]; foreach (x : l) { l.add(x) } while (true) { foreach (x : l) { l.add(x) } }' },
  { what: 'a queue that refills itself', text: 'q = new LinkedList([1]); while (!q.isEmpty()) { q.removeFirst(); q.addLast(1) }' },
  { what: 'searching a large list again and again', text: 'l = [1]; while (l.size() < 5000) { l.addAll(l) } while (true) { l.contains(0) }' },
  { what: 'sorting again and again', text: 'l = [3, 1, 2]; while (true) { Collections.sort(l) }' },
]; // biome-ignore format: a table

const large: EscapeAttempt[] = [
  { what: 'doubling a string', text: 's = "aaaaaaaa"; while (true) { s = s + s }' },
  { what: 'doubling a string by +=', text: 's = "aaaaaaaa"; while (true) { s += s }' },
  { what: 'repeat', text: '"a".repeat(2000000000)' },
  { what: 'repeat of repeat', text: '"a".repeat(100000).repeat(100000)' },
  { what: 'repeat in a loop', text: 'while (true) { state.put("a" + state.size(), "a".repeat(4000000)) }' },
  { what: 'concat', text: 's = "aaaaaaaa"; while (true) { s = s.concat(s) }' },
  { what: 'format with a width', text: 'String.format("%2000000000d", 1)' },
  { what: 'format with many widths', text: 'p = "%99999s".repeat(1000); String.format(p, 1)' },
  { what: 'format with a precision', text: 'String.format("%.2000000000f", 1.5)' },
  { what: 'replace growing', text: 's = "aaaaaaaa"; while (true) { s = s.replace("a", "aaaaaaaa") }' },
  { what: 'replace of nothing', text: 's = "aaaaaaaa"; while (true) { s = s.replace("", "aaaaaaaa") }' },
  { what: 'replaceAll growing', text: 's = "aaaaaaaa"; while (true) { s = s.replaceAll("a", "$0$0$0$0") }' },
  { what: 'join growing', text: 's = "aaaaaaaa"; while (true) { s = String.join(s, s, s, s) }' },
  { what: 'StringBuilder growing', text: 'b = new StringBuilder("aaaaaaaa"); while (true) { b.append(b.toString()) }' },
  { what: 'StringBuilder.setLength', text: 'new StringBuilder().setLength(2000000000)' },
  { what: 'StringBuilder.insert', text: 'b = new StringBuilder("aaaaaaaa"); while (true) { b.insert(0, b.toString()) }' },
  { what: 'toUpperCase in a loop', text: 's = "a".repeat(1000000); while (true) { s.toUpperCase() }' },
  { what: 'indent', text: '"a".indent(2000000000)' },
  { what: 'toCharArray of a long text', text: '"a".repeat(4000000).toCharArray()' },
  { what: 'split of a long text', text: '"a,".repeat(1000000).split(",")' },
  { what: 'getBytes of a long text', text: '"a".repeat(4000000).getBytes()' },
  { what: 'searching a long text again and again', text: 's = "a".repeat(4000000); while (true) { s contains "b" }' },
  { what: 'comparing long texts again and again', text: 's = "a".repeat(4000000); t = "a".repeat(4000000); while (true) { s == t }' },
  { what: 'a list that doubles', text: 'l = [1]; while (true) { l.addAll(l) }' },
  { what: 'a list by +', text: 'l = [1]; while (true) { l = l + 1 }' },
  { what: 'a map that grows', text: 'i = 0; while (true) { state.put(i, i); i = i + 1 }' },
  { what: 'a set that grows', text: 's = new HashSet(); i = 0; while (true) { s.add(i); i = i + 1 }' },
  { what: 'copies of a list', text: 'l = [1]; while (l.size() < 50000) { l.addAll(l) } m = []; while (true) { m.add(new ArrayList(l)) }' },
  { what: 'sub-lists of a list', text: 'l = [1]; while (l.size() < 50000) { l.addAll(l) } m = []; while (true) { m.add(l.subList(0, 50000)) }' },
  { what: 'a list that holds itself, as text', text: 'l = []; l.add(l); "" + l' },
  { what: 'a list that holds itself, hashed', text: 'l = []; l.add(l); l.hashCode()' },
  { what: 'a list that holds itself, in a set', text: 'l = []; l.add(l); new HashSet([l])' },
  { what: 'two lists that hold each other, compared', text: 'a = []; b = []; a.add(b); b.add(a); a == b' },
  { what: 'a billion laughs, as text', text: 'l = ["ha"]; i = 0; while (i < 60) { l = [l, l]; i = i + 1 } "" + l' },
  { what: 'a billion laughs, hashed', text: 'l = ["ha"]; i = 0; while (i < 60) { l = [l, l]; i = i + 1 } l.hashCode()' },
  { what: 'a billion laughs, compared', text: 'l = ["ha"]; m = ["ha"]; i = 0; while (i < 60) { l = [l, l]; m = [m, m]; i = i + 1 } l == m' },
  { what: 'a billion laughs, as a key', text: 'l = ["ha"]; i = 0; while (i < 60) { l = [l, l]; i = i + 1 } state.put(l, 1)' },
]; // biome-ignore format: a table

const deep: EscapeAttempt[] = [
  { what: 'parentheses, 10,000 deep', text: `${'('.repeat(10_000)}1${')'.repeat(10_000)}` },
  { what: 'lists, 10,000 deep', text: `${'['.repeat(10_000)}1${']'.repeat(10_000)}` },
  { what: 'not, 10,000 times', text: `${'!'.repeat(10_000)}true` },
  { what: 'minus, 10,000 times', text: `${'-'.repeat(10_000)}1` },
  { what: '?:, 10,000 deep', text: `${'true ? '.repeat(5000)}1${' : 2'.repeat(5000)}` },
  { what: 'a sum of 20,000', text: `1${' + 1'.repeat(15_000)}` },
  { what: 'a chain of 10,000 calls', text: `"a"${'.trim()'.repeat(9000)}` },
  { what: 'indexes, 10,000 times', text: `state${'["a"]'.repeat(9000)}` },
  { what: 'if, 5,000 deep', text: `${'if (true) { '.repeat(4000)}1${' }'.repeat(4000)}` },
  { what: 'else if, 5,000 times', text: `if (true) { 1 }${' else if (true) { 1 }'.repeat(3000)}` },
  { what: 'a text of a million characters', text: `"${'a'.repeat(1_000_000)}"` },
  { what: 'a pattern, 5,000 deep', text: `"a" ~= "${'('.repeat(1500)}a${')'.repeat(1500)}"` },
  { what: 'a class, 1,000 deep', text: `"a" ~= "${'['.repeat(1000)}a${']'.repeat(1000)}"` },
]; // biome-ignore format: a table

const patterns: EscapeAttempt[] = [
  { what: 'a regex bomb in a loop: (a+)+b', text: 's = "a".repeat(5000); while (true) { s ~= "(a+)+b" }' },
  { what: 'a regex bomb in a loop: (a|aa)+$', text: 's = "a".repeat(5000) + "!"; while (true) { s.matches("(a|aa)+") }' },
  { what: 'a regex bomb in a loop: (.*)*x', text: 's = "a".repeat(5000); while (true) { s.matches("(.*)*x") }' },
  { what: 'a regex bomb in a loop: .*a.*a.*a', text: 's = "a".repeat(5000) + "b"; while (true) { s.matches(".*a.*a.*a.*a.*c") }' },
  { what: 'splitting by a bomb', text: 's = "a".repeat(5000); while (true) { s.split("(a+)+b") }' },
  { what: 'replacing by a bomb', text: 's = "a".repeat(5000); while (true) { s.replaceAll("(a*)*b", "") }' },
  { what: 'a huge repetition', text: '"a" ~= "(a{1,1000}){1,1000}"' },
  { what: 'a repetition of repetitions', text: '"a" ~= "((a{0,100}){0,100}){0,100}"' },
  { what: 'new patterns without an end', text: 'i = 0; while (true) { "a".matches("a" + i); i = i + 1 }' },
  { what: 'a back reference', text: '"aa" ~= "(a)\\\\1"' },
  { what: 'a look-behind', text: '"aa" ~= "(?<=a)a"' },
  { what: 'a look-ahead in the middle', text: '"aa" ~= "a(?=a)a"' },
  { what: 'an atomic group', text: '"aa" ~= "(?>a+)a"' },
  { what: 'a possessive quantifier that matters', text: '"aa" ~= "a++a"' },
]; // biome-ignore format: a table

const changes: EscapeAttempt[] = [
  { what: 'replacing request', text: 'request = null' },
  { what: 'replacing state', text: 'state = new HashMap()' },
  { what: 'replacing result', text: 'result = new HashMap()' },
  { what: 'assigning to request', text: 'request.method = "GET"' },
  { what: 'assigning to a request header', text: 'request["X-Engine-User"] = "root"' },
  { what: 'assigning to the user', text: 'engineRequestUser.user = "root"' },
  { what: 'changing the catalogs', text: 'engineQueryProperties.getCatalogs().clear()' },
  { what: 'changing a constant list', text: 'List.of(1).add(2)' },
  { what: 'changing a constant set', text: 'Set.of(1).add(2)' },
  { what: 'changing the parameter map', text: 'request.getParameterMap().put("a", "b")' },
  { what: 'assigning to a class constant', text: 'Integer.MAX_VALUE = 1' },
  { what: 'assigning __proto__ of a list', text: '[1].__proto__ = 1' },
  { what: 'reading __proto__ of state', text: 'state.__proto__' },
  { what: 'reading constructor of state', text: 'state.constructor' },
]; // biome-ignore format: a table

/** The table: each is refused with an error, within the budgets. */
export const escapeAttempts: readonly EscapeAttempt[] = [
  ...properties,
  ...names,
  ...java,
  ...javascript.map((name) => ({ what: `result.${name}`, text: `result.${name}` })),
  ...endless,
  ...large,
  ...deep,
  ...patterns,
  ...changes,
];
