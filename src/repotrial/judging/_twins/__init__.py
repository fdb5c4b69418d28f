"""Twins: wrong-expectation copies of real tests, which an honest run must fail. Pure: source in, source out.

A judge that shares its process with the code under trial can be made to say anything. What gives such code
away is that it cannot tell a test from its twin: both stand in the same file, look alike and differ in one
expected value. Where it forges the verdict of the one, it forges that of the other.
"""
