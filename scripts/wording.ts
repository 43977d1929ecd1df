/** Fails on words that have a plain replacement in technical English: in code, comments, messages, tests and pages. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';

interface Replacement {
  /** What is not written. */
  readonly words: RegExp;
  /** What is written instead. */
  readonly instead: string;
  /** Files that may have the words; absent: none. */
  readonly except?: RegExp;
  /** The files that may not have them; absent: all. */
  readonly only?: RegExp;
}

/** Releases are described as they were. */
const unchanged = /^CHANGELOG\.md$/;

/** Participles as names of variables, parameters and private members; fields may be those of an answer or a table. */
const participles = 'found|held|sent|seen|asked|known|kept|given|made|gone';
const participle = new RegExp(
  [
    `\\b(?:const|let) (?:${participles})(?= =|:|;| of )`,
    `(?:\\bthis\\.|^ +(?:readonly |async )?)#(?:${participles})\\b`,
    `\\((?:${participles})(?=\\) =>)`,
  ].join('|'),
);

const replacements: readonly Replacement[] = [
  { words: /\bmend(?:s|ed|ing)?\b/i, instead: 'fix' },
  { words: /\banew\b/i, instead: 'again, or a verb with re-' },
  { words: /\b(?:is|are|was|were|be|been) away\b(?! from)/i, instead: 'unavailable, or missing' },
  {
    words: /(?<!\bthere )\b(?:is|was) no (?:HTTP URL|URL|JDBC URL|JSON|YAML|UTF-8|TLS|JWT|MBean)\b/i,
    instead: '"is not a …"',
  },
  { words: /\b(?:has|had) the lead\b/i, instead: 'is the leader' },
  { words: /\bbegin again\b/i, instead: 'start again' },
  { words: /\bneeds of (?:the|every)\b/i, instead: 'dependencies of' },
  { words: /\b(?:tells?|told)\b/i, instead: 'reports, returns, states or shows', except: unchanged },
  { words: /\bwho(?:so)?ever\b/i, instead: 'a user who, or anyone who', except: unchanged },
  { words: /\bundone\b/i, instead: 'rolled back, or cleaned up', except: unchanged },
  { words: /\blacking\b/i, instead: 'missing, or without', except: unchanged },
  { words: /\bas it were\b/i, instead: 'nothing' },
  { words: /\bof its own accord\b/i, instead: 'by itself' },
  { words: participle, instead: 'a noun for the value, or a verb for the function', only: /^src\/.*\.tsx?$/ },
];

/** Recorded and foreign text, and files that hold the words as data. */
const excluded =
  /^(?:test\/fixtures\/|scripts\/wording\.ts$|test\/unit\/scripts\/wording\.test\.ts$|package-lock\.json$|LICENSE$)/;
const text = /\.(?:md|ts|tsx|js|css|html|sh|ya?ml|tpl|java|py|toml|lua|txt|snap)$|(?:^|\/)(?:Dockerfile|run)$/;

const found = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], { encoding: 'utf8' })
  .split('\n')
  .filter((file) => text.test(file) && !excluded.test(file) && existsSync(file))
  .flatMap(wordsOf);
for (const line of found) console.error(line);
process.exitCode = found.length === 0 ? 0 : 1;

function wordsOf(file: string): readonly string[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .flatMap((line, index) =>
      replacements.flatMap(({ words, instead, except, only }) => {
        if (except?.test(file) === true || only?.test(file) === false) return [];
        const [word] = words.exec(line) ?? [];
        return word === undefined ? [] : [`${file}:${index + 1}: "${word}": write ${instead}`];
      }),
    );
}
