/**
 * Fails on references to documentation that does not exist: links in Markdown pages, and the names of pages in code and
 * comments. A reference to a heading needs that heading, and docs/README.md links every page of its folder. Metrics that any page or manifest names are listed in docs/metrics.md,
 * which is generated from those that are registered.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

/** A place that refers to a page. */
interface Reference {
  readonly file: string;
  readonly line: number;
  /** Path of the page from the project's root. */
  readonly page: string;
  /** Anchor of a heading; null where the page as a whole is meant. */
  readonly anchor: string | null;
}

/** Files that hold recorded or foreign text, and tests of checks, whose pages exist in their own folders only. */
const excluded =
  /^(?:test\/fixtures\/|test\/unit\/scripts\/(?:references|wording)\.test\.ts$|package-lock\.json$|docs\/images\/|LICENSE$)/;
const code = /\.(?:ts|tsx|js|sh|ya?ml|tpl|java|py|toml|lua|css|html|txt)$|(?:^|\/)(?:Dockerfile|run)$/;

const tracked = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], { encoding: 'utf8' })
  .split('\n')
  .filter((file) => file !== '' && !excluded.test(file) && existsSync(file));

const anchors = new Map<string, ReadonlySet<string>>();
const metricsPage = 'docs/metrics.md';
let knownMetrics: ReadonlySet<string> | null = null;

const broken = tracked.flatMap(referencesOf).flatMap((reference) => {
  const problem = problemOf(reference);
  return problem === null ? [] : [`${reference.file}:${reference.line}: ${problem}`];
});
broken.push(...tracked.filter((file) => /\.(?:md|ya?ml|tpl)$/.test(file)).flatMap(unknownMetricsOf));
broken.push(...unlistedPages());
for (const line of broken) console.error(line);
if (broken.length > 0) console.error(`${broken.length} references to documentation that does not exist`);
process.exitCode = broken.length === 0 ? 0 : 1;

function referencesOf(file: string): readonly Reference[] {
  if (file.endsWith('.md')) return linksOf(file);
  return code.test(file) ? mentionsOf(file) : [];
}

/** Links of a Markdown page to other pages and to headings; those of code blocks do not count. */
function linksOf(file: string): readonly Reference[] {
  const found: Reference[] = [];
  let fenced = false;
  readFileSync(file, 'utf8')
    .split('\n')
    .forEach((text, index) => {
      if (/^\s*```/.test(text)) fenced = !fenced;
      if (fenced) return;
      for (const [, target = ''] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
        if (/^[a-z][a-z0-9+.-]*:/i.test(target)) continue;
        const [path = '', anchor] = target.split('#', 2);
        const page = path === '' ? file : normalize(join(dirname(file), path));
        found.push({ file, line: index + 1, page, anchor: anchor ?? null });
      }
    });
  return found;
}

/**
 * Pages that code, comments and messages name by their path from the project's root, or from their own folder. Markdown
 * links in code are left out: they belong to generated pages, which are checked themselves.
 */
function mentionsOf(file: string): readonly Reference[] {
  const found: Reference[] = [];
  readFileSync(file, 'utf8')
    .split('\n')
    .forEach((text, index) => {
      for (const [, path = '', anchor] of text.matchAll(/(?<![\w/.$}-]|\]\()([\w.-][\w./-]*\.md)(?:#([\w-]+))?\b/g)) {
        const own = normalize(join(dirname(file), path));
        const page = path.startsWith('.') || (!existsSync(path) && existsSync(own)) ? own : path;
        found.push({ file, line: index + 1, page, anchor: anchor ?? null });
      }
    });
  return found;
}

/** Pages of docs/ that its list of pages does not link. */
function unlistedPages(): readonly string[] {
  const list = 'docs/README.md';
  if (!existsSync(list)) return [];
  const listed = new Set([list, ...linksOf(list).map(({ page }) => page)]);
  return tracked
    .filter((file) => /^docs\/[^/]+\.md$/.test(file) && !listed.has(file))
    .map((file) => `${file}:1: ${list} does not list this page`);
}

/** Metrics that a file names and docs/metrics.md does not list; a histogram is also named by its series. */
function unknownMetricsOf(file: string): readonly string[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .flatMap((text, index) =>
      [...text.matchAll(/\bengine_gateway_[a-z0-9_]+/g)]
        .map(([name]) => name)
        .filter(
          (name) => !listedMetrics().has(name) && !listedMetrics().has(name.replace(/_(?:bucket|sum|count)$/, '')),
        )
        .map((name) => `${file}:${index + 1}: ${metricsPage} has no metric ${name}`),
    );
}

function listedMetrics(): ReadonlySet<string> {
  if (knownMetrics === null) {
    const page = existsSync(metricsPage) ? readFileSync(metricsPage, 'utf8') : '';
    knownMetrics = new Set([...page.matchAll(/^\| `(engine_gateway_[a-z0-9_]+)`/gm)].map(([, name = '']) => name));
  }
  return knownMetrics;
}

function problemOf({ page, anchor }: Reference): string | null {
  if (!existsSync(page)) return `${page} does not exist`;
  if (anchor === null || !page.endsWith('.md')) return null;
  return anchorsOf(page).has(anchor) ? null : `${page} has no heading #${anchor}`;
}

/** Anchors of a page's headings, as repository hosts and documentation sites derive them. */
function anchorsOf(page: string): ReadonlySet<string> {
  const known = anchors.get(page);
  if (known !== undefined) return known;
  const found = new Set<string>();
  let fenced = false;
  for (const text of readFileSync(page, 'utf8').split('\n')) {
    if (/^\s*```/.test(text)) fenced = !fenced;
    const heading = fenced ? null : /^#{1,6}\s+(.*?)\s*#*$/.exec(text);
    if (heading === null) continue;
    const slug = (heading[1] as string)
      .toLowerCase()
      .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-');
    let anchor = slug;
    for (let count = 1; found.has(anchor); count += 1) anchor = `${slug}-${count}`;
    found.add(anchor);
  }
  anchors.set(page, found);
  return found;
}
