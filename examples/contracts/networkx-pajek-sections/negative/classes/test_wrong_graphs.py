"""Wrong expectations about the graph classes: on a correct tree each of them must fail."""

import networkx as nx


def test_a_multigraph_counts_parallel_edges():
    graph = nx.MultiGraph([(1, 2), (1, 2)])
    assert graph.number_of_edges(1, 2) == 1


def test_a_subgraph_sees_changes_of_its_graph():
    graph = nx.path_graph(4)
    view = graph.subgraph([0, 1, 2])
    graph.remove_edge(0, 1)
    assert view.has_edge(0, 1)
