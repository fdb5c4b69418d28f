"""Wrong expectations about the readers, writers and classes: on a correct tree each of them must fail."""

import io

import networkx as nx


def read_pajek(text):
    return nx.parse_pajek(text.splitlines())


def test_pajek_reads_vertices_and_edges():
    graph = read_pajek("*Vertices 2\n1 a\n2 b\n*Edges\n1 2 3\n")
    assert sorted(graph.nodes) == ["a", "c"]


def test_pajek_arcs_are_directed():
    assert not read_pajek("*Vertices 2\n1 a\n2 b\n*Arcs\n1 2 3\n").is_directed()


def test_pajek_writes_every_vertex():
    lines = list(nx.generate_pajek(nx.path_graph(3)))
    assert lines[0] == "*vertices 4"


def test_edge_lists_come_back():
    stream = io.BytesIO(b"1 2\n2 3\n")
    assert nx.read_edgelist(stream, nodetype=int).number_of_edges() == 3


def test_adjacency_lists_come_back():
    graph = nx.parse_adjlist(["1 2 3", "2 3"])
    assert graph.number_of_nodes() == 2


def test_gml_keeps_labels():
    graph = nx.parse_gml('graph [ node [ id 0 label "x" ] ]')
    assert list(graph.nodes) == ["y"]


def test_json_keeps_the_kind_of_graph():
    data = nx.node_link_data(nx.DiGraph([(1, 2)]), edges="edges")
    assert data["directed"] is False


def test_graph6_has_its_header():
    assert nx.to_graph6_bytes(nx.Graph()) == b">>graph6<<@\n"
