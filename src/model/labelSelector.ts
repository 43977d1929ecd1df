type Labels = Readonly<Record<string, string>>;

interface Requirement {
  readonly key: string;
  readonly operator: 'in' | 'notIn' | 'exists' | 'doesNotExist';
  readonly values: readonly string[];
}

/** A label selector, as `kubectl get --selector` takes it (Kubernetes: Labels and Selectors). */
export interface LabelSelector {
  readonly requirements: readonly Requirement[];
}

const operators = { In: 'in', NotIn: 'notIn', Exists: 'exists', DoesNotExist: 'doesNotExist' } as const;

/** A selector as specs have it (Kubernetes: LabelSelector). */
export interface LabelSelectorSpec {
  readonly matchLabels?: Labels;
  readonly matchExpressions?: readonly {
    readonly key: string;
    readonly operator: keyof typeof operators;
    readonly values?: readonly string[];
  }[];
}

/** Converts the selector of a spec. */
export function toLabelSelector({ matchLabels = {}, matchExpressions = [] }: LabelSelectorSpec): LabelSelector {
  return {
    requirements: [
      ...Object.entries(matchLabels).map(([key, value]) => ({ key, operator: 'in' as const, values: [value] })),
      ...matchExpressions.map(({ key, operator, values = [] }) => ({ key, operator: operators[operator], values })),
    ],
  };
}

const MAX_REQUIREMENTS = 32;

const name = '[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?';
const keyPattern = `(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?${name}`;
const valuePattern = `(?:${name})?`;
const forms = {
  equality: new RegExp(`^(${keyPattern})\\s*(==?|!=)\\s*(${valuePattern})$`),
  set: new RegExp(`^(${keyPattern})\\s+(in|notin)\\s*\\(([^()]*)\\)$`),
  exists: new RegExp(`^(!?)\\s*(${keyPattern})$`),
  value: new RegExp(`^${valuePattern}$`),
};

/**
 * Parses a label selector such as `team=etl,env in (prod, test),!legacy`.
 * @returns the mistake with the fix if it is invalid
 */
export function parseLabelSelector(text: string): LabelSelector | { readonly problem: string } {
  // Commas within parentheses are between values.
  const parts = text.split(/,(?![^()]*\))/).map((part) => part.trim());
  if (parts.length > MAX_REQUIREMENTS) return { problem: `must have at most ${MAX_REQUIREMENTS} requirements` };
  const requirements: Requirement[] = [];
  for (const part of parts) {
    const requirement = parseRequirement(part);
    if (requirement === null) {
      return {
        problem: `must be a label selector such as team=etl or "env in (prod, test),!legacy"; "${part}" is none of key=value, key!=value, key in (…), key notin (…), key and !key`,
      };
    }
    requirements.push(requirement);
  }
  return { requirements };
}

function parseRequirement(part: string): Requirement | null {
  const [, key, operator, value] = forms.equality.exec(part) ?? [];
  if (key !== undefined) return { key, operator: operator === '!=' ? 'notIn' : 'in', values: [value ?? ''] };
  const [, setKey, word, list] = forms.set.exec(part) ?? [];
  if (setKey !== undefined) {
    const values = (list ?? '').split(',').map((each) => each.trim());
    if (!values.every((each) => forms.value.test(each))) return null;
    return { key: setKey, operator: word === 'in' ? 'in' : 'notIn', values };
  }
  const [, not, plainKey] = forms.exists.exec(part) ?? [];
  if (plainKey === undefined) return null;
  return { key: plainKey, operator: not === '!' ? 'doesNotExist' : 'exists', values: [] };
}

export function matchesLabels({ requirements }: LabelSelector, labels: Labels): boolean {
  return requirements.every(({ key, operator, values }) => {
    const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
    if (operator === 'exists') return value !== undefined;
    if (operator === 'doesNotExist') return value === undefined;
    return (value !== undefined && values.includes(value)) === (operator === 'in');
  });
}

/** The minimal labels that match a selector; null if no labels match. */
export function labelsFor(selector: LabelSelector): Labels | null {
  const excluded = (key: string, value: string): boolean =>
    selector.requirements.some(
      (each) => each.key === key && !matchesLabels({ requirements: [each] }, { [key]: value }),
    );
  const labels: Record<string, string> = {};
  for (const { key, operator, values } of selector.requirements) {
    if (operator === 'exists' && !Object.hasOwn(labels, key)) {
      labels[key] = excluded(key, 'true') ? '' : 'true';
    } else if (operator === 'in') {
      const value = values.find((each) => !excluded(key, each));
      if (value === undefined) return null;
      labels[key] = value;
    }
  }
  return matchesLabels(selector, labels) ? labels : null;
}
