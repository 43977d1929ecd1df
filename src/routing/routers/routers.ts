import type { ProductNames } from '../../model/names.ts';
import { DefaultGroupRouter } from './defaultGroupRouter.ts';
import { HeaderRouter } from './headerRouter.ts';
import type { Router } from './router.ts';
import { RouterChain } from './routerChain.ts';
import { RulesRouter } from './rulesRouter.ts';

/** What the chain is made of. */
export interface RoutersParts {
  readonly names: ProductNames;
  /** `routing.defaultRoutingGroup`, as it is now. */
  readonly defaultGroup: () => string;
  /** Router that asks the external rules service; null where there is none, or nobody is to be asked. */
  readonly external: Router | null;
}

/** Puts the routers in their order (docs/routing.md#which-cluster-takes-a-query). */
export function routers({ names, defaultGroup, external }: RoutersParts): RouterChain {
  return new RouterChain(
    [
      new RulesRouter({ defaultGroup, refusesOnly: external !== null }),
      ...(external === null ? [] : [external]),
      new HeaderRouter(names.headerKey('Routing-Group')),
    ],
    new DefaultGroupRouter(defaultGroup),
  );
}
