import { type Static, Type } from 'typebox';
import type { KindProgram } from '../../src/kinds/kindProgram.ts';
import { KindRegistry } from '../../src/kinds/kindRegistry.ts';
import { isSameOutcome, type ResourceOutcome } from '../../src/kinds/outcome.ts';
import { isPaused } from '../../src/kinds/paused.ts';
import { resourceKinds } from '../../src/kinds/registry.ts';
import { conditionColumn, type ResourceKind } from '../../src/kinds/resourceKind.ts';
import { conditionsAt } from '../../src/model/condition.ts';
import { GatewayClassName } from '../../src/model/gatewayClass.ts';
import { claimNames } from '../../src/model/nameClaims.ts';
import { keyOf, keyText, type Resource } from '../../src/model/resource.ts';
import { registryNameOf } from '../../src/model/resourceName.ts';
import { compileCheck } from '../../src/model/validation.ts';

const BannerSpec = Type.Object(
  {
    text: Type.String({ minLength: 1, maxLength: 20, description: 'What it says.' }),
    gatewayClassName: Type.Optional(GatewayClassName),
  },
  { additionalProperties: false, description: 'A text for people.' },
);
const checkSpec = compileCheck(BannerSpec, 'spec');

interface BannerOutcome extends ResourceOutcome {
  /** Null: its name is another's. */
  readonly text: string | null;
}

class BannerProgram implements KindProgram {
  restore(): void {
    // Nothing of a banner is in force before its resource is read.
  }

  refresh(resources: readonly Resource[]): ReadonlyMap<string, BannerOutcome> {
    const holders = claimNames(resources);
    return new Map(
      resources.map((resource) => {
        const key = keyOf(resource);
        const registryName = registryNameOf(resource);
        const { text } = resource.spec as Static<typeof BannerSpec>;
        const isHolder = holders.get(registryName) === resource;
        return [
          keyText(key),
          { key, resource, registryName, paused: isPaused(resource), text: isHolder ? text : null },
        ];
      }),
    );
  }
}

/** A kind that the gateway does not have, through the interface that every kind goes through. */
export const banner: ResourceKind<BannerOutcome> = {
  kind: 'Banner',
  plural: 'banners',
  singular: 'banner',
  shortName: 'bn',
  description: 'Banner is a text for people.',
  spec: BannerSpec,
  objectRules: [],
  statusProperties: { shown: { type: 'string', description: 'What is shown.' } },
  columns: [conditionColumn('Ready', 'It is shown.')],
  selectableFields: ['.spec.text'],
  example: { text: 'hello' },
  ownAccess: { verbs: ['get', 'list', 'watch'], why: 'Banners are shown.' },
  gauge: { name: 'banners', help: 'Banner resources.' },
  specProblems: (spec) => {
    const checked = checkSpec(spec);
    return checked.ok ? [] : checked.problems;
  },
  findings: ({ spec }) =>
    spec.text === 'shout' ? [{ severity: 'warning', message: 'spec.text: too loud', at: 'spec.text' }] : [],
  exported: ({ clusters }) => clusters.map(({ name }) => ({ registryName: name, spec: { text: `about ${name}` } })),
  program: () => new BannerProgram(),
  isSame: isSameOutcome,
  status: ({ resource: { metadata }, text }, { stored }) => ({
    observedGeneration: metadata.generation,
    fields: text === null ? {} : { shown: text },
    conditions: [conditionsAt(metadata.generation)('Ready', stored.stored ? 'True' : 'False', 'Shown', stored.reason)],
  }),
  endedAnnotations: () => [],
  rows: null,
  isRequired: false,
  hasUniqueNames: true,
  hasCounts: false,
};

/** All kinds of the gateway, and the made-up one. */
export const kindsWithBanner = new KindRegistry([...resourceKinds.all, banner]);
