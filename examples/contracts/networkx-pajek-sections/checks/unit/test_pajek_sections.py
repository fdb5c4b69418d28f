"""Hidden acceptance tests: Pajek files with lists, comments and several sections."""

import io

import pytest

import networkx as nx

HEAD = '*Vertices 4\n1 "a"\n2 "b"\n3 "c"\n4 "d"\n'


def parse(text):
    return nx.parse_pajek(HEAD + text)


def arcs(graph):
    return sorted(graph.edges())


def pairs(graph):
    return sorted(tuple(sorted(edge)) for edge in graph.edges())


def test_a_list_of_arcs_names_every_target():
    graph = parse("*Arcslist\n1 2 3 4\n3 1\n")
    assert arcs(graph) == [("a", "b"), ("a", "c"), ("a", "d"), ("c", "a")]
    assert type(graph) is nx.MultiDiGraph


def test_a_list_of_edges_names_every_neighbor():
    graph = parse("*Edgeslist\n1 2 3\n4 3\n")
    assert pairs(graph) == [("a", "b"), ("a", "c"), ("c", "d")]
    assert type(graph) is nx.MultiGraph


def test_edges_of_lists_have_no_data():
    graph = parse("*Edgeslist\n1 2 3 4\n")
    assert [data for _, _, data in graph.edges(data=True)] == [{}, {}, {}]


def test_a_list_keeps_parallel_edges_and_loops():
    graph = parse("*Arcslist\n1 2 2 1\n")
    assert arcs(graph) == [("a", "a"), ("a", "b"), ("a", "b")]


def test_edges_after_arcs_go_both_ways():
    graph = parse("*Arcs\n1 2 1\n*Edges\n3 4 1\n")
    assert arcs(graph) == [("a", "b"), ("c", "d"), ("d", "c")]
    assert type(graph) is nx.MultiDiGraph


def test_edges_before_arcs_go_both_ways():
    graph = parse("*Edges\n3 4 1\n*Arcs\n1 2 1\n")
    assert arcs(graph) == [("a", "b"), ("c", "d"), ("d", "c")]
    assert type(graph) is nx.MultiDiGraph


def test_both_arcs_of_an_edge_have_its_data():
    graph = parse('*Arcs\n1 2 1\n*Edges\n3 4 2.5 l "ferry"\n')
    expected = {"weight": 2.5, "l": "ferry"}
    assert graph.get_edge_data("c", "d") == {0: expected}
    assert graph.get_edge_data("d", "c") == {0: expected}


def test_both_arcs_of_an_edge_are_apart():
    graph = parse("*Arcs\n1 2 1\n*Edges\n3 4 2\n")
    graph["c"]["d"][0]["weight"] = 9.0
    assert graph["d"]["c"][0]["weight"] == 2.0


@pytest.mark.parametrize("text", ["*Arcs\n1 2\n*Edges\n3 3\n", "*Edges\n3 3\n*Arcs\n1 2\n"], ids=["after", "before"])
def test_a_loop_among_edges_appears_once(text):
    assert arcs(parse(text)) == [("a", "b"), ("c", "c")]


def test_lists_and_plain_sections_mix():
    graph = parse("*Edgeslist\n1 2 3\n*Arcs\n4 1 7\n*Arcslist\n2 4\n")
    assert arcs(graph) == [("a", "b"), ("a", "c"), ("b", "a"), ("b", "d"), ("c", "a"), ("d", "a")]
    assert graph["d"]["a"][0] == {"weight": 7.0}


def test_the_same_section_may_come_twice():
    graph = parse("*Edges\n1 2 1\n*Edgeslist\n1 3\n*Edges\n1 2 5\n")
    assert pairs(graph) == [("a", "b"), ("a", "b"), ("a", "c")]
    assert sorted(data["weight"] for data in graph["a"]["b"].values()) == [1.0, 5.0]


def test_a_section_without_lines_still_counts():
    graph = parse("*Arcs\n*Edges\n1 2 1\n")
    assert arcs(graph) == [("a", "b"), ("b", "a")]


def test_comments_are_left_out_everywhere():
    text = '% made by hand\n*Vertices 2\n% the first\n1 "a"\n  % the second\n2 "b"\n*Edges\n% measured in May\n1 2 1\n'
    graph = nx.parse_pajek(text)
    assert sorted(graph) == ["a", "b"]
    assert pairs(graph) == [("a", "b")]


def test_blank_lines_are_not_vertices():
    graph = nx.parse_pajek('*Vertices 2\n\n1 "a"\n  \n2 "b"\n\n*Arcs\n\n1 2\n')
    assert list(graph) == ["a", "b"]
    assert arcs(graph) == [("a", "b")]


@pytest.mark.parametrize("name", ["*ARCSLIST", "*arcslist", "  *ArcsList"], ids=["upper", "lower", "indented"])
def test_the_name_of_a_section_may_be_written_in_several_ways(name):
    assert arcs(parse(f"{name}\n2 1 3\n")) == [("b", "a"), ("b", "c")]


def test_a_two_mode_network_is_read():
    graph = nx.parse_pajek('*Vertices 3 2\n1 "a"\n2 "b"\n3 "x"\n*Edgeslist\n1 3\n2 3\n')
    assert pairs(graph) == [("a", "x"), ("b", "x")]


def test_a_section_may_follow_a_matrix():
    graph = nx.parse_pajek('*Vertices 2\n1 "a"\n2 "b"\n*Matrix\n0 3\n0 0\n*Arcs\n2 1 4\n')
    assert type(graph) is nx.DiGraph
    assert list(graph.edges(data="weight")) == [("a", "b", 3), ("b", "a", 4.0)]


def test_the_name_of_the_network_and_the_vertices_survive_all_sections():
    graph = nx.parse_pajek('*Network Ferries\n*Vertices 2\n1 "a" 0.5 0.25 box\n2 "b"\n*Edges\n1 2\n*Arcslist\n1 2\n')
    assert graph.graph["name"] == "Ferries"
    assert graph.nodes["a"] == {"id": "1", "x": 0.5, "y": 0.25, "shape": "box"}


def test_files_are_read_in_the_same_way():
    stream = io.BytesIO((HEAD + "*Arcslist\n1 2 3\n*Edges\n3 4 1\n").encode())
    assert arcs(nx.read_pajek(stream)) == [("a", "b"), ("a", "c"), ("c", "d"), ("d", "c")]


def test_one_section_of_edges_is_read_as_before():
    graph = parse('*Edges\n1 2 1.5 l "x y"\n2 1\n')
    assert type(graph) is nx.MultiGraph
    assert sorted(map(str, (data for _, _, data in graph.edges(data=True)))) == ["{'weight': 1.5, 'l': 'x y'}", "{}"]


def test_one_section_of_arcs_is_read_as_before():
    graph = parse("*Arcs\n1 2 -1\n2 2 3\n")
    assert list(graph.edges(data="weight")) == [("a", "b", -1.0), ("b", "b", 3.0)]


def test_vertices_alone_give_a_directed_graph_as_before():
    assert type(parse("")) is nx.MultiDiGraph
