/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Much debug information for few lines: one of the units of the program that symbols.py makes. */

#include <algorithm>
#include <numeric>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>
namespace UNIT {
template <int N> struct Shape {
        std::map<std::string, std::vector<double>> values;
        std::unordered_map<int, std::shared_ptr<std::string>> names;
        double sum(const std::string &text) {
                std::ostringstream out;
                out << text << N;
                for (auto &c : out.str()) values[std::string(1, c)].push_back(c * 1.5 + N);
                double total = 0;
                for (auto &[key, list] : values) {
                        std::sort(list.begin(), list.end(), [](double a, double b) { return a > b + N; });
                        total += std::accumulate(list.begin(), list.end(), 0.0, std::plus<double>());
                        names[N] = std::make_shared<std::string>(key);
                }
                return total;
        }
        std::variant<int, std::string, double> pick(int i) {
                if (i % 3 == 0) return i + N;
                if (i % 3 == 1) return std::to_string(i);
                return i * 0.5;
        }
};
}
#include <numeric>
template <int N> double all() {
        UNIT::Shape<N> s;
        double r = s.sum("text") + std::visit([](auto &&v) -> double {
                if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::string>)
                        return v.size();
                else
                        return v;
        }, s.pick(N));
        std::regex pattern("a(b|c)*" + std::to_string(N));
        r += std::regex_search("abcabc", pattern);
        if constexpr (N % 100 > 0) r += all<N - 1>();
        return r;
}
double RUN() { return all<BASE + 40>(); }
