/** Words that have a plain replacement in technical English. `budgets.ts` counts them: a count never rises. */

interface Wording {
  /** Matches each use; global. */
  readonly pattern: RegExp;
  readonly instead: string;
  /** Files in which uses count. Default: `PROSE`. */
  readonly files?: RegExp;
}

/** Sources, docs and the README. The reference consists of texts of the sources. */
const PROSE = /^(?:src\/.*\.tsx?|docs\/(?!reference\/).*\.md|README\.md)$/;
const SOURCES = /^src\/.*\.tsx?$/;
/** All text except fixtures, data, and files that contain the words as data. */
const EVERYWHERE =
  /^(?!test\/fixtures\/|scripts\/wording\.ts$|test\/unit\/scripts\/wording\.test\.ts$|package-lock\.json$|LICENSE$)(?:.*\.(?:md|ts|tsx|js|css|html|sh|ya?ml|tpl|java|py|toml|lua|txt|snap)|(?:.*\/)?(?:Dockerfile|run))$/;
/** Like `EVERYWHERE`, without released changes, which stay as they are. */
const UNRELEASED = new RegExp(EVERYWHERE.source.replace('^(?!', '^(?!CHANGELOG\\.md$|'));

/** Participles as names of variables, parameters and private members. Names of fields may come from a response or a table. */
const participles = 'found|held|sent|seen|asked|known|kept|given|made|gone';
const participleNames = new RegExp(
  [
    `\\b(?:const|let) (?:${participles})(?= =|:|;| of )`,
    `(?:\\bthis\\.|^ +(?:readonly |async )?)#(?:${participles})\\b`,
    `\\((?:${participles})(?=\\) =>)`,
  ].join('|'),
  'g',
);

/** Words as parts of names. */
const partsOfNames =
  /\b(?:answer|refuse|heir|taker|kept)s?(?=[A-Z])|[a-z](?=(?:Answer|Refuse|Heir|Taker|Kept)[a-z]{0,2}(?![a-z]))/g;

/** Words by name; the name is also the figure in `budgets.json`. */
export const wording: Readonly<Record<string, Wording>> = {
  alone: { pattern: /\balone\b/gi, instead: 'only' },
  anew: { pattern: /\banew\b/gi, instead: 'again, or a verb with re-', files: EVERYWHERE },
  answer: { pattern: /\banswer(?:s|ed|ing)?\b/gi, instead: 'response, or respond' },
  'as it were': { pattern: /\bas it were\b/gi, instead: 'nothing', files: EVERYWHERE },
  'at once': { pattern: /\bat once\b/gi, instead: 'immediately, or concurrently' },
  'begin again': { pattern: /\bbegin again\b/gi, instead: 'start again', files: EVERYWHERE },
  beside: { pattern: /\bbesides?\b/gi, instead: 'in addition to, or next to' },
  'for people': { pattern: /\bfor people\b/gi, instead: 'for users' },
  'give back': { pattern: /\bg(?:ives?|ave|iven|iving) back\b/gi, instead: 'release, or return' },
  'goes on': { pattern: /\bgo(?:es)? on\b/gi, instead: 'continues' },
  heir: { pattern: /\bheirs?\b/gi, instead: 'successor' },
  'in force': { pattern: /\bin force\b/gi, instead: 'active, or effective' },
  inherit: { pattern: /\binherit(?:s|ed|ing)?\b/gi, instead: 'adopt' },
  'is away': {
    pattern: /\b(?:is|are|was|were|be|been) away\b(?! from)/gi,
    instead: 'unavailable, or missing',
    files: EVERYWHERE,
  },
  'is no': {
    pattern: /(?<!\bthere )\b(?:is|was) no (?:HTTP URL|URL|JDBC URL|JSON|YAML|UTF-8|TLS|JWT|MBean)\b/gi,
    instead: 'is not a …',
    files: EVERYWHERE,
  },
  lacking: { pattern: /\blacking\b/gi, instead: 'missing, or without', files: UNRELEASED },
  lead: { pattern: /\b(?:has|had) the lead\b/gi, instead: 'is the leader', files: EVERYWHERE },
  look: { pattern: /\b(?:two looks|(?:next|last|each) look)\b/gi, instead: 'poll, sweep, or interval' },
  mend: { pattern: /\bmend(?:s|ed|ing)?\b/gi, instead: 'fix', files: EVERYWHERE },
  MOST_: {
    pattern: /\b(?:MOST|LONGEST|LARGEST|HIGHEST|LEAST|SHORTEST|SMALLEST|LOWEST)_[A-Z]/g,
    instead: 'MAX_ or MIN_',
    files: SOURCES,
  },
  needs: { pattern: /\bneeds of (?:the|every)\b/gi, instead: 'dependencies of', files: EVERYWHERE },
  nobody: { pattern: /\bnobody\b/gi, instead: 'no user, or no client' },
  name: { pattern: partsOfNames, instead: 'the term in the entry of the word', files: SOURCES },
  'of its own': { pattern: /\bof (?:its|their) own\b/gi, instead: 'dedicated, or separate' },
  'of its own accord': { pattern: /\bof its own accord\b/gi, instead: 'by itself', files: EVERYWHERE },
  participle: {
    pattern: participleNames,
    instead: 'a noun for the value, or a verb for the function',
    files: SOURCES,
  },
  reference: {
    pattern: /\breference gateway\b|\bgateways? (?:that ran )?before\b/gi,
    instead: 'Trino Gateway',
  },
  refuse: { pattern: /\brefus(?:e|es|ed|ing)\b/gi, instead: 'reject' },
  say: { pattern: /\b(?:says?|said|saying)\b/gi, instead: 'contains, states or reports' },
  somebody: { pattern: /\bsomebody\b/gi, instead: 'another user, or a client' },
  taker: { pattern: /\btakers?\b/gi, instead: 'eligible cluster' },
  tell: { pattern: /\b(?:tells?|told)\b/gi, instead: 'reports, returns, states or shows', files: UNRELEASED },
  tend: { pattern: /\btend(?:s|ed|ing)?\b/gi, instead: 'maintenance' },
  'there is none': { pattern: /\bthere (?:is|are) none\b/gi, instead: 'missing, or not found' },
  undone: { pattern: /\bundone\b/gi, instead: 'rolled back, or cleaned up', files: UNRELEASED },
  'waiting room': { pattern: /\bwaiting rooms?\b/gi, instead: 'queue' },
  where: { pattern: /\b(?:null|undefined|absent|empty|none|left out) where\b/gi, instead: 'if' },
  whoever: { pattern: /\bwho(?:so)?ever\b/gi, instead: 'a user who, or anyone who', files: UNRELEASED },
  whose: { pattern: /\bwhose\b/gi, instead: 'with, or a second sentence' },
};

/** Calls `add` for each use of a word in a file, with its line from 1. `read` is only called for files with counted words. */
export function findWords(path: string, read: () => string, add: (word: string, line: number) => void): void {
  const here = Object.entries(wording).filter(([, { files }]) => (files ?? PROSE).test(path));
  if (here.length === 0) return;
  for (const [index, line] of read().split('\n').entries()) {
    for (const [word, { pattern }] of here) for (const _ of line.matchAll(pattern)) add(word, index + 1);
  }
}
