import { PageFrame } from '../../components/PageFrame.tsx';
export default function ClustersPage() {
  return <PageFrame title="Active Backends">x</PageFrame>;
}
