import { Badge, Table, Text } from '@mantine/core';
import type { ClusterDetails } from '../../client/types.ts';
import { FactList } from '../../components/FactList.tsx';
import { Time } from '../../components/time.tsx';
import { ClusterAudit } from './ClusterDetails.tsx';
import classes from './clusterPage.module.css';
import { differencesText, ownersText, valueText } from './declaredTexts.ts';

/** Declared fields of a cluster's resource with their managers, compared with the active values. */
export function Declared({ cluster }: { readonly cluster: ClusterDetails }) {
  const { fields, resource, override, specActive } = cluster;
  if (resource === null) {
    return (
      <Text size="sm">
        A row of a gateway that ran before; it has no resource. The first change by REST or on a page makes one.
      </Text>
    );
  }
  return (
    <>
      <Text size="sm" mb="xs">
        {differencesText(cluster)}
      </Text>
      {override !== null && (
        <Text size="sm" mb="xs">
          Overridden: {override.active ? 'on' : 'off'} by {override.by}
          {override.at !== null && (
            <>
              {' '}
              at <Time at={Date.parse(override.at)} />
            </>
          )}
          ; the resource says {specActive ? 'on' : 'off'}. Switching it {specActive ? 'on' : 'off'} ends the override.
        </Text>
      )}
      <Table aria-label="Declared and in force" verticalSpacing={4} className={classes.declared ?? ''}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th scope="col">Field</Table.Th>
            <Table.Th scope="col">Declared</Table.Th>
            <Table.Th scope="col">In force</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {fields.map(({ field, declared, inForce, differs, managers }) => (
            <Table.Tr key={field} className={differs ? (classes.differing ?? '') : ''}>
              <Table.Th scope="row" className={classes.field ?? ''}>
                {field}
                {differs && (
                  <Badge variant="light" color="orange" size="sm" ml={6}>
                    differs
                  </Badge>
                )}
              </Table.Th>
              <Table.Td className={classes.breaking ?? ''}>
                {valueText(declared)}
                <Text size="xs" c="dimmed">
                  {ownersText(managers)}
                </Text>
              </Table.Td>
              <Table.Td className={classes.breaking ?? ''}>{valueText(inForce)}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      <div className={classes.place}>
        <FactList
          facts={[
            ['Resource', `${resource.namespace}/${resource.name}`],
            ['Place', resource.place === '' ? '–' : resource.place],
            ['Generation', resource.generation],
          ]}
        />
      </div>
      <ClusterAudit name={cluster.name} />
    </>
  );
}
